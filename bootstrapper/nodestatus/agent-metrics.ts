import { DAY_MS } from '../../internal/clock/index.ts';
import type { FileSystem } from '../../internal/file/index.ts';
import type { Growth, GrowthSubject } from '../../internal/growth/index.ts';
import {
  processMetrics,
  type MachineUsage,
  type MetricFamily,
  type ProcessUsage,
} from '../../internal/metrics/index.ts';
import type { TreeSnapshot } from '../../internal/supervisor/index.ts';
import type { EtcdContent, EtcdName } from '../consensus/index.ts';
import type { RoundTrip } from '../hosthealth/index.ts';
import type { ApiServerHealth, StaticPodHealth } from '../kubernetes/index.ts';
import type { CertificateExpiry } from './certificate-expiry.ts';
import type { BackupCopies, ScheduledBackups } from '../roleserve/index.ts';
import { isFailing } from './is-failing.ts';

/** Inputs of `agentMetrics()`. */
export interface AgentMetricsInput {
  readonly version: string;
  readonly usage: ProcessUsage;
  readonly machine: MachineUsage;
  readonly tree: TreeSnapshot;
  readonly certificates: readonly CertificateExpiry[];
  /** The file systems of directories with data, by the path of the directory. */
  readonly fileSystems: ReadonlyMap<string, FileSystem>;
  /** How fast file systems and databases of this node fill. */
  readonly growths: readonly (GrowthSubject & Growth)[];
  /** The components of the control plane on this node; empty on a worker. */
  readonly components: readonly Pick<StaticPodHealth, 'name' | 'isReady'>[];
  /** Whether all members of each etcd have the same content; undefined when this node runs no etcd member. */
  readonly contents: Readonly<Record<EtcdName, EtcdContent>> | undefined;
  /** The scheduled backups of the cluster; undefined without a schedule, and on workers. */
  readonly backups: ScheduledBackups | undefined;
  /** The copies of this node's backups; undefined if it makes none. */
  readonly backupCopies: BackupCopies | undefined;
  /** The usual round trips to other nodes through the network of pods. */
  readonly roundTrips: readonly RoundTrip[];
  /** Health of the API servers as the balancer reports it; empty when no balancer runs. */
  readonly servers: readonly ApiServerHealth[];
  readonly nowMs: number;
}

/** Metrics of the agent: its process, its runnables, its certificates, and the balancer. Pure. */
export function agentMetrics(input: AgentMetricsInput): readonly MetricFamily[] {
  const { version, usage, machine, tree, certificates, fileSystems, growths } = input;
  const { components, contents, backups, backupCopies, roundTrips, servers, nowMs } = input;
  return [
    ...processMetrics({ program: 'agent', version }, usage),
    {
      name: 'cluster_node_time_seconds',
      help: 'The clock of this node, in seconds since 1970.',
      kind: 'gauge',
      samples: [{ value: nowMs / 1000 }],
    },
    ...machineMetrics(machine),
    {
      name: 'cluster_agent_runnable_state',
      help: 'Runnables of the agent by path; 1 for the current state.',
      kind: 'gauge',
      samples: tree.map(({ path, state }) => ({ labels: { path, state }, value: 1 })),
    },
    {
      name: 'cluster_agent_runnable_restarts_total',
      help: 'Restarts of each runnable.',
      kind: 'counter',
      samples: tree.map(({ path, restarts }) => ({ labels: { path }, value: restarts })),
    },
    {
      name: 'cluster_agent_runnable_failing',
      help: 'Runnables of the agent whose last run failed, and that have not recovered since.',
      kind: 'gauge',
      samples: tree.filter(isFailing).map(({ path }) => ({ labels: { path }, value: 1 })),
    },
    {
      name: 'cluster_certificate_expiry_seconds',
      help: 'Seconds until the certificate expires; negative afterwards.',
      kind: 'gauge',
      samples: certificates.map(({ name, notAfterMs }) => ({
        labels: { certificate: name },
        value: Math.round((notAfterMs - nowMs) / 1000),
      })),
    },
    {
      name: 'cluster_certificate_lifetime_seconds',
      help: 'Lifetime of the certificate in seconds.',
      kind: 'gauge',
      samples: certificates.map(({ name, notBeforeMs, notAfterMs }) => ({
        labels: { certificate: name },
        value: Math.round((notAfterMs - notBeforeMs) / 1000),
      })),
    },
    {
      name: 'cluster_control_plane_component_ready',
      help: 'Whether the agent sees a component of the control plane on this node as ready.',
      kind: 'gauge',
      samples: components.map(({ name, isReady }) => ({
        labels: { component: name },
        value: Number(isReady),
      })),
    },
    ...fileSystemMetrics(fileSystems),
    ...growthMetrics(growths, { kind: 'filesystem', label: 'path', of: 'file system of a directory' }),
    ...growthMetrics(growths, { kind: 'etcd', label: 'etcd', of: 'database of an etcd member' }),
    ...contentMetrics(contents),
    ...backupMetrics(backups),
    ...copyMetrics(backupCopies),
    {
      name: 'cluster_pod_network_round_trip_seconds',
      help: 'The median round trip to another node through the network of pods, by the address of that node; follows clear changes only.',
      kind: 'gauge',
      samples: roundTrips.map(({ address, ms }) => ({ labels: { peer: address }, value: ms / 1000 })),
    },
    ...balancerMetrics(servers),
  ];
}

function machineMetrics(machine: MachineUsage): readonly MetricFamily[] {
  const { cpuBusySeconds, cpuSeconds, memoryBytes, memoryAvailableBytes } = machine;
  const family = (name: string, kind: MetricFamily['kind'], help: string, value: number): MetricFamily => ({
    name: `cluster_node_${name}`,
    ...{ kind, help, samples: [{ value }] },
  });
  return [
    family('cpu_busy_seconds_total', 'counter', 'Time that all processors were not idle.', cpuBusySeconds),
    family('cpu_seconds_total', 'counter', 'Time of all processors, idle time included.', cpuSeconds),
    family('memory_bytes', 'gauge', 'Memory of this machine.', memoryBytes),
    family(
      'memory_available_bytes',
      'gauge',
      'Memory that programs can still use without swapping.',
      memoryAvailableBytes,
    ),
  ];
}

function fileSystemMetrics(fileSystems: AgentMetricsInput['fileSystems']): readonly MetricFamily[] {
  const family = (name: string, help: string, value: (each: FileSystem) => number): MetricFamily => ({
    name: `cluster_filesystem_${name}`,
    help,
    kind: 'gauge',
    samples: [...fileSystems].map(([path, each]) => ({ labels: { path }, value: value(each) })),
  });
  return [
    family('size_bytes', 'Size of the file system of a directory.', ({ sizeBytes }) => sizeBytes),
    family(
      'available_bytes',
      'Bytes that unprivileged programs may still write.',
      ({ availableBytes }) => availableBytes,
    ),
    family('inodes', 'Inodes of the file system; 0 where their number is not fixed.', ({ inodes }) => inodes),
    family('inodes_free', 'Inodes that are not used.', ({ inodesFree }) => inodesFree),
  ];
}

/** Growth is absent while there are too few measurements, and 0 where nothing grows clearly. */
function growthMetrics(
  growths: AgentMetricsInput['growths'],
  { kind, label, of }: { readonly kind: GrowthSubject['kind']; readonly label: string; readonly of: string },
): readonly MetricFamily[] {
  const own = growths.filter((each) => each.kind === kind);
  const family = (name: string, help: string, value: (each: Growth) => number | undefined): MetricFamily => ({
    ...{ name: `cluster_${kind}_${name}`, help, kind: 'gauge' },
    samples: own.flatMap((each) => {
      const figure = value(each);
      return figure === undefined ? [] : [{ labels: { [label]: each.name }, value: figure }];
    }),
  });
  return [
    family('growth_measured_seconds', `How long the growth of the ${of} has been measured.`, (each) =>
      Math.round(each.measuredMs / 1000),
    ),
    family(
      'growth_bytes_per_second',
      `Growth of the ${of}; 0 if it does not grow, absent before it was measured for a day.`,
      ({ bytesPerDay }) => bytesPerDay && bytesPerDay / (DAY_MS / 1000),
    ),
  ];
}

/** Only the control plane of the leader compares: what another one knows from earlier may be outdated. */
function contentMetrics(contents: AgentMetricsInput['contents']): readonly MetricFamily[] {
  const samples = Object.entries(contents ?? {}).flatMap(([etcd, { compared, isLeader }]) =>
    compared === undefined || !isLeader
      ? []
      : [{ labels: { etcd }, value: Number(compared.differing.length > 0) }],
  );
  const name = 'cluster_etcd_content_differs';
  return [
    {
      name,
      help: 'Whether members of an etcd had other content than others when compared.',
      kind: 'gauge',
      samples,
    },
  ];
}

function backupMetrics(backups: ScheduledBackups | undefined): readonly MetricFamily[] {
  if (backups === undefined) return [];
  const family = (name: string, help: string, ms: number): MetricFamily => ({
    name: `cluster_backup_${name}`,
    help,
    kind: 'gauge',
    samples: [{ value: ms / 1000 }],
  });
  return [
    family('period_seconds', 'How often a backup of the cluster is due.', backups.periodMs),
    family(
      'newest_proved_timestamp_seconds',
      'When the newest proved backup was taken; before the first one, when the schedule was signed.',
      backups.newestMs,
    ),
    family('schedule_end_timestamp_seconds', 'When the signature of the schedule expires.', backups.endsMs),
  ];
}

function copyMetrics(copies: BackupCopies | undefined): readonly MetricFamily[] {
  return [
    {
      name: 'cluster_backup_copies_failing',
      help: 'Whether the last attempt of this node to copy its backups failed; absent if the schedule names no target for copies.',
      kind: 'gauge',
      samples: copies === undefined ? [] : [{ value: Number(copies.isFailing) }],
    },
  ];
}

function balancerMetrics(servers: readonly ApiServerHealth[]): readonly MetricFamily[] {
  return [
    {
      name: 'cluster_balancer_upstream_verdict',
      help: 'Health of each API server as the balancer of this node sees it: 1 for healthy, unready, silent or unknown.',
      kind: 'gauge',
      samples: servers.map(({ server, verdict }) => ({ labels: { server, verdict }, value: 1 })),
    },
    {
      name: 'cluster_balancer_upstream_connections',
      help: 'Connections that the balancer of this node forwards to each API server.',
      kind: 'gauge',
      samples: servers.map(({ server, connections }) => ({ labels: { server }, value: connections })),
    },
  ];
}
