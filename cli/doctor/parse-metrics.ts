import { DAY_MS } from '../../internal/clock/index.ts';
import type { EtcdMemberFacts, GrowthFacts, NodeMetricsFacts } from '../../internal/doctor/index.ts';

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;
const FSYNC = 'etcd_disk_wal_fsync_duration_seconds_bucket';
const ROUND_TRIP = 'etcd_network_peer_round_trip_time_seconds_bucket';

const GROWTHS = [
  { kind: 'filesystem', label: 'path' },
  { kind: 'etcd', label: 'etcd' },
] as const;

/** One line of a page of metrics. */
export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/**
 * The figures of a node that the checks need, from its metrics in Prometheus' text format. Pure.
 * @param earlier the metrics some seconds before: only the fsyncs since then are judged, so that the load at the start
 * of etcd does not count
 */
export function metricsFrom(text: string, earlier = ''): NodeMetricsFacts {
  const before = new Map(samplesFrom(earlier).map((each) => [keyOf(each), each.value]));
  const samples = samplesFrom(text).map((each) =>
    isWindowed(each) ? { ...each, value: grown(each.value, before.get(keyOf(each))) } : each,
  );
  const [stateEtcd, kubernetesEtcd] = [memberFrom(samples, 'state'), memberFrom(samples, 'kubernetes')];
  return {
    ...(stateEtcd && { stateEtcd }),
    ...(kubernetesEtcd && { kubernetesEtcd }),
    balancer: samples
      .filter(({ name, value }) => name === 'cluster_balancer_upstream_verdict' && value === 1)
      .map(({ labels }) => ({ server: labels['server'] ?? '', verdict: labels['verdict'] ?? '' })),
    ...growthFrom(samples),
  };
}

/** The growth of file systems and databases; absent if the agent of the node does not measure it. */
function growthFrom(all: readonly Sample[]): Pick<NodeMetricsFacts, 'growth'> {
  const growth = GROWTHS.flatMap(({ kind, label }) => {
    const rates = new Map(
      all
        .filter(({ name }) => name === `cluster_${kind}_growth_bytes_per_second`)
        .map(({ labels, value }) => [labels[label], value]),
    );
    return all
      .filter(({ name }) => name === `cluster_${kind}_growth_measured_seconds`)
      .map(({ labels, value }): GrowthFacts => {
        const rate = rates.get(labels[label]);
        const measured = { kind, name: labels[label] ?? '', measuredMs: Math.round(value * 1_000) };
        return rate === undefined ? measured : { ...measured, bytesPerDay: (rate * DAY_MS) / 1_000 };
      });
  });
  return growth.length === 0 ? {} : { growth };
}

/** All samples of a page of metrics in Prometheus' text format. */
export function samplesFrom(text: string): readonly Sample[] {
  return text.split('\n').flatMap(sampleFrom);
}

function isWindowed({ name }: Sample): boolean {
  return name === FSYNC;
}

function keyOf({ name, labels }: Sample): string {
  return JSON.stringify([name, labels]);
}

/** The growth of a counter. A counter that became smaller starts at 0, because its process has restarted. */
function grown(value: number, before = 0): number {
  return value >= before ? value - before : value;
}

function sampleFrom(line: string): readonly Sample[] {
  const [, name, labels = '', value] = SAMPLE.exec(line) ?? [];
  if (name === undefined) return [];
  const pairs = [...labels.matchAll(LABEL)].map(([, key = '', text = '']) => [key, text] as const);
  return [{ name, labels: Object.fromEntries(pairs), value: Number(value) }];
}

/** undefined: the member does not respond, so the page has no samples of it. */
function memberFrom(all: readonly Sample[], etcd: string): EtcdMemberFacts | undefined {
  const samples = all.filter(({ labels }) => labels['etcd'] === etcd);
  const value = (name: string): number | undefined => samples.find((each) => each.name === name)?.value;
  const leader = value('etcd_server_has_leader');
  if (leader === undefined) return undefined;
  const peers = Map.groupBy(
    samples.filter(({ name }) => name === ROUND_TRIP),
    ({ labels }) => labels['To'] ?? '',
  );
  const startedSeconds = value('process_start_time_seconds');
  const roundTrips = [...peers.values()].flatMap((buckets) => quantileMs(buckets, 0.5) ?? []);
  return {
    hasLeader: leader === 1,
    ...defined({
      fsyncP99Ms: quantileMs(
        samples.filter(({ name }) => name === FSYNC),
        0.99,
      ),
      peerRoundTripMs: roundTrips.length === 0 ? undefined : Math.max(...roundTrips),
      dbSizeBytes: value('etcd_mvcc_db_total_size_in_bytes'),
      dbInUseBytes: value('etcd_mvcc_db_total_size_in_use_in_bytes'),
      startedMs: startedSeconds === undefined ? undefined : Math.round(startedSeconds * 1_000),
    }),
  };
}

/**
 * The upper bound of the bucket that contains the quantile. The last bucket has no upper bound, so its lower bound is
 * returned.
 */
function quantileMs(buckets: readonly Sample[], share: number): number | undefined {
  const sorted = buckets
    .map(({ labels, value }) => ({ le: labels['le'] === '+Inf' ? Infinity : Number(labels['le']), value }))
    .toSorted((a, b) => a.le - b.le);
  const total = sorted.at(-1)?.value ?? 0;
  if (total === 0) return undefined;
  const { le } = sorted.find(({ value }) => value >= share * total) ?? { le: Infinity };
  const bound = Number.isFinite(le) ? le : sorted.at(-2)?.le;
  return bound === undefined ? undefined : bound * 1_000;
}

function defined<T extends object>(values: T): { [K in keyof T]?: NonNullable<T[K]> } {
  return Object.fromEntries(
    Object.entries(values).filter(([, value]) => value !== undefined && Number.isFinite(value)),
  ) as { [K in keyof T]?: NonNullable<T[K]> };
}
