import { EtcdError } from './errors.ts';

/** What the local member says about itself to everybody on the node. */
export interface MemberGauges {
  readonly dbSizeBytes: number;
  readonly quotaBytes: number;
  readonly hasLeader: boolean;
  readonly isLeader: boolean;
}

/**
 * Reads the local member's Prometheus page. etcd ≥ 3.6 answers `Status` to root alone, and what serves strangers must
 * not be root; sizes are no secret.
 * @param url e.g. "http://127.0.0.1:2381/metrics"
 */
export async function readMemberGauges(url: string, signal: AbortSignal): Promise<MemberGauges> {
  let page: string;
  try {
    page = await (await fetch(url, { signal })).text();
  } catch (error) {
    signal.throwIfAborted();
    throw new EtcdError('etcd-unavailable', `reading ${url}`, { cause: error });
  }
  return parseMemberGauges(page);
}

export function parseMemberGauges(page: string): MemberGauges {
  const gauge = (name: string): number => {
    const value = new RegExp(`^${name} (\\S+)$`, 'm').exec(page)?.[1];
    const number = Number(value);
    if (value === undefined || !Number.isFinite(number))
      throw new EtcdError('etcd-failed', `reading etcd's metrics: no ${name}`);
    return number;
  };
  return {
    dbSizeBytes: gauge('etcd_mvcc_db_total_size_in_bytes'),
    quotaBytes: gauge('etcd_server_quota_backend_bytes'),
    hasLeader: gauge('etcd_server_has_leader') === 1,
    isLeader: gauge('etcd_server_is_leader') === 1,
  };
}
