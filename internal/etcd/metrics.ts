import { EtcdError } from './errors.ts';

/** Metrics of the local member, which every process of the node may read. */
interface MemberGauges {
  readonly dbSizeBytes: number;
  readonly quotaBytes: number;
  readonly hasLeader: boolean;
  readonly isLeader: boolean;
}

/** The gauges and the alarms. */
export interface MemberHealth extends MemberGauges {
  /** The alarm NOSPACE is raised: etcd refuses every write. */
  readonly isFull: boolean;
  /** The alarm CORRUPT is raised: etcd refuses every read and write. */
  readonly isCorrupt: boolean;
}

/**
 * Reads the Prometheus metrics of the local member. etcd ≥ 3.6 returns `Status` to the root user only, and a process that
 * serves untrusted clients must not have that credential.
 * @param url e.g. "http://127.0.0.1:2381/metrics"
 */
export async function readMemberGauges(url: string, signal: AbortSignal): Promise<MemberHealth> {
  let page: string;
  let health: string;
  try {
    // The metrics do not contain alarms. The health page of the same listener reports an alarm before any
    // other reason.
    [page, health] = (await Promise.all(
      [url, new URL('/health?serializable=true', url).href].map(async (each) =>
        (await fetch(each, { signal })).text(),
      ),
    )) as [string, string];
  } catch (error) {
    signal.throwIfAborted();
    throw new EtcdError('etcd-unavailable', `reading ${url}`, { cause: error });
  }
  return {
    ...parseMemberGauges(page),
    isFull: hasAlarm(health, 'NOSPACE'),
    isCorrupt: hasAlarm(health, 'CORRUPT'),
  };
}

/** E.g. `{"health":"false","reason":"ALARM NOSPACE"}`. */
function hasAlarm(health: string, alarm: 'NOSPACE' | 'CORRUPT'): boolean {
  return new RegExp(`"reason":"[^"]*${alarm}`).test(health);
}

/** Parses the Prometheus text of an etcd member. @throws EtcdError `etcd-failed` when a metric is missing */
export function parseMemberGauges(page: string): MemberGauges {
  const gauge = (name: string): number => {
    const value = new RegExp(`^${name} (\\S+)$`, 'm').exec(page)?.[1];
    const number = Number(value);
    if (value === undefined || !Number.isFinite(number))
      throw new EtcdError('etcd-failed', `reading etcd metrics: no ${name}`);
    return number;
  };
  return {
    dbSizeBytes: gauge('etcd_mvcc_db_total_size_in_bytes'),
    quotaBytes: gauge('etcd_server_quota_backend_bytes'),
    hasLeader: gauge('etcd_server_has_leader') === 1,
    isLeader: gauge('etcd_server_is_leader') === 1,
  };
}
