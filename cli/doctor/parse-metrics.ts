import { DAY_MS } from '../../internal/clock/index.ts';
import type { EtcdMemberFacts, GrowthFacts, NodeMetricsFacts } from '../../internal/doctor/index.ts';

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;
const FSYNC = 'etcd_disk_wal_fsync_duration_seconds_bucket';
const ROUND_TRIP = 'etcd_network_peer_round_trip_time_seconds_bucket';
/** Its label is the ID by which the round trips of other members name this one. */
const SERVER_ID = 'etcd_server_id';
/** A node sends its own metrics: more peers than an etcd can have are ignored. */
const MAX_PEERS = 64;

/** So many of a few fsyncs may be slow for other reasons than the disk, such as a paused virtual machine. */
const OUTLIERS = 2;

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
  const roundTrips = [...peers].slice(0, MAX_PEERS).flatMap(([id, buckets]) => {
    const roundTripMs = medianMs(buckets);
    return roundTripMs === undefined || !Number.isFinite(roundTripMs) ? [] : { id, roundTripMs };
  });
  const own = samples.find(({ name, value: is }) => name === SERVER_ID && is === 1)?.labels['server_id'];
  return {
    hasLeader: leader === 1,
    ...defined({
      fsync: slowFsyncs(samples.filter(({ name }) => name === FSYNC)),
      ...{ id: own, peers: roundTrips.length === 0 ? undefined : roundTrips },
      peerRoundTripMs:
        roundTrips.length === 0 ? undefined : Math.max(...roundTrips.map(({ roundTripMs }) => roundTripMs)),
      dbSizeBytes: value('etcd_mvcc_db_total_size_in_bytes'),
      dbInUseBytes: value('etcd_mvcc_db_total_size_in_use_in_bytes'),
      startedMs: startedSeconds === undefined ? undefined : Math.round(startedSeconds * 1_000),
    }),
  };
}

/** The slowest fsyncs that count: see `EtcdMemberFacts`. */
function slowFsyncs(buckets: readonly Sample[]): EtcdMemberFacts['fsync'] {
  const { total, boundMs } = histogramFrom(buckets);
  const within = Math.max(1, Math.min(Math.ceil(0.99 * total), total - OUTLIERS));
  // A node sends its own metrics, so a value can be anything.
  const ms = Number.isSafeInteger(total) && total >= 2 ? boundMs(within) : undefined;
  return ms === undefined || !Number.isFinite(ms) ? undefined : { ms, within, total };
}

function medianMs(buckets: readonly Sample[]): number | undefined {
  const { total, boundMs } = histogramFrom(buckets);
  return total === 0 ? undefined : boundMs(total / 2);
}

/**
 * A histogram of Prometheus. `boundMs` returns the upper bound of the bucket with the given rank from below. The last bucket has no upper
 * bound, so its lower bound is returned.
 */
function histogramFrom(buckets: readonly Sample[]) {
  const sorted = buckets
    .map(({ labels, value }) => ({ le: labels['le'] === '+Inf' ? Infinity : Number(labels['le']), value }))
    .toSorted((a, b) => a.le - b.le);
  const boundMs = (rank: number): number | undefined => {
    const { le } = sorted.find(({ value }) => value >= rank) ?? { le: Infinity };
    const bound = Number.isFinite(le) ? le : sorted.at(-2)?.le;
    return bound === undefined ? undefined : bound * 1_000;
  };
  return { total: sorted.at(-1)?.value ?? 0, boundMs };
}

function defined<T extends object>(values: T): { [K in keyof T]?: NonNullable<T[K]> } {
  return Object.fromEntries(
    Object.entries(values).filter(
      ([, value]) => value !== undefined && (typeof value !== 'number' || Number.isFinite(value)),
    ),
  ) as { [K in keyof T]?: NonNullable<T[K]> };
}
