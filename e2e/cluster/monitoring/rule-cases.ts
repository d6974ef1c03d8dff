/** One time series for `promtool test rules`. */
export interface Series {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** In promtool's notation: "1x100" is 1 at each of 101 minutes, "0+60x100" grows by 60 a minute. */
  readonly values: string;
}

/** An alert that fires. */
interface Fired {
  readonly alert: string;
  readonly severity: 'critical' | 'warning';
  /** The node that the alert names; undefined if the alert is about the whole cluster. */
  readonly node?: string;
  /** How many alerts have these labels; default: 1. */
  readonly count?: number;
}

/** A fault as a change of the metrics, and the complete list of the alerts that must fire. */
export interface RuleCase {
  readonly name: string;
  readonly fault: (series: readonly Series[]) => readonly Series[];
  readonly fires: readonly Fired[];
  /** Minutes after the start at which the alerts are checked; default: 90. */
  readonly atMinutes?: number;
}

const MINUTES = 100;
const GIB = 1024 ** 3;
const DAY_SECONDS = 86_400;
const NODES = ['n1', 'n2', 'n3', 'n4'] as const;
type NodeName = (typeof NODES)[number];
const CONTROL_PLANES: readonly NodeName[] = ['n1', 'n2', 'n3'];
const ETCDS = ['state', 'kubernetes'] as const;
const CERTIFICATE = '/var/lib/cluster/credentials/node.crt';
const CA = '/var/lib/cluster/ca/ca.crt';
const KUBELET_DIRECTORY = '/var/lib/kubelet';
const PEER = 'a1b2';

const constant = (value: number): string => `${value}x${MINUTES}`;
const growing = (perMinute: number, from = 0): string => `${from}+${perMinute}x${MINUTES}`;
const address = (node: NodeName): string => `198.18.0.${NODES.indexOf(node) + 1}`;

/** The metrics of a healthy cluster of three control planes and one worker. */
export function healthySeries(): readonly Series[] {
  return NODES.flatMap((node) => {
    const isControlPlane = CONTROL_PLANES.includes(node);
    const target = {
      ...{ job: 'cluster-nodes', instance: node, address: address(node), node },
      ...(isControlPlane && { control_plane: 'true' }),
    };
    const ofControlPlane = [...componentSeries(), ...backupSeries(), ...ETCDS.flatMap(etcdSeries)];
    const series = [...programSeries(), ...(isControlPlane ? ofControlPlane : [])];
    return series.map(({ name, labels, values }) => ({ name, labels: { ...target, ...labels }, values }));
  });
}

function programSeries(): readonly Series[] {
  const one = (name: string, values: string, labels = {}): Series => ({ name, labels, values });
  return [
    one('up', constant(1)),
    one('cluster_node_time_seconds', growing(60)),
    ...['agent', 'kubelet', 'joinservice'].map((program) =>
      one('cluster_program_up', constant(1), { program }),
    ),
    one('cluster_agent_runnable_state', constant(1), { path: 'root.statuspush', state: 'healthy' }),
    ...[
      { certificate: CERTIFICATE, days: 5, lifetime: 7 },
      { certificate: CA, days: 3000, lifetime: 3650 },
    ].flatMap(({ certificate, days, lifetime }) => [
      one('cluster_certificate_expiry_seconds', constant(days * DAY_SECONDS), { certificate }),
      one('cluster_certificate_lifetime_seconds', constant(lifetime * DAY_SECONDS), { certificate }),
    ]),
    ...Object.entries({
      size_bytes: 100 * GIB,
      available_bytes: 60 * GIB,
      growth_bytes_per_second: 0,
      inodes: 1e6,
      inodes_free: 9e5,
    }).map(([name, value]) =>
      one(`cluster_filesystem_${name}`, constant(value), { path: KUBELET_DIRECTORY }),
    ),
    one('cluster_pod_network_round_trip_seconds', constant(0.001), { peer: '10.244.0.0' }),
    one('cluster_pod_network_round_trip_seconds', constant(0.1), { peer: '10.244.9.0' }),
    ...CONTROL_PLANES.map((server) =>
      one('cluster_balancer_upstream_verdict', constant(1), {
        server: `${address(server)}:6443`,
        verdict: 'healthy',
      }),
    ),
  ];
}

function componentSeries(): readonly Series[] {
  return ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler'].map((component) => ({
    name: 'cluster_control_plane_component_ready',
    labels: { component },
    values: constant(1),
  }));
}

/** A cluster with scheduled backups of which the newest is from the first minute. */
function backupSeries(): readonly Series[] {
  return Object.entries({
    period_seconds: 6 * 3600,
    newest_proved_timestamp_seconds: 0,
    schedule_end_timestamp_seconds: 300 * DAY_SECONDS,
    copies_failing: 0,
  }).map(([name, value]) => ({ name: `cluster_backup_${name}`, labels: {}, values: constant(value) }));
}

function etcdSeries(etcd: string): readonly Series[] {
  const one = (name: string, values: string, labels = {}): Series => ({
    ...{ name, values },
    labels: { etcd, ...labels },
  });
  const buckets = (name: string, bounds: readonly number[], labels = {}): readonly Series[] =>
    [...bounds.map(String), '+Inf'].map((le) => one(`${name}_bucket`, growing(600), { le, ...labels }));
  return [
    one('cluster_program_up', constant(1), { program: 'etcd' }),
    one('cluster_etcd_alarm', constant(0), { alarm: 'NOSPACE' }),
    one('cluster_etcd_alarm', constant(0), { alarm: 'CORRUPT' }),
    one('cluster_etcd_content_differs', constant(0)),
    one('etcd_server_has_leader', constant(1)),
    one('etcd_server_is_learner', constant(0)),
    one('etcd_server_quota_backend_bytes', constant(2 * GIB)),
    one('etcd_mvcc_db_total_size_in_bytes', constant(GIB / 16)),
    one('etcd_mvcc_db_total_size_in_use_in_bytes', constant(GIB / 20)),
    ...buckets('etcd_disk_wal_fsync_duration_seconds', [0.001, 0.004, 0.008, 0.016]),
    ...buckets('etcd_network_peer_round_trip_time_seconds', [0.0008, 0.0512, 0.1024, 0.2048], { To: PEER }),
  ];
}

type Match = Readonly<Record<string, string>>;

function isMatch({ name, labels }: Series, wanted: string, match: Match): boolean {
  return name === wanted && Object.entries(match).every(([label, value]) => labels[label] === value);
}

/**
 * Gives the matching series other values or labels. Throws if no series matches, because the case would then test
 * nothing.
 */
function set(name: string, match: Match, values: string, labels: Match = {}) {
  return (all: readonly Series[]): readonly Series[] => {
    if (!all.some((each) => isMatch(each, name, match))) throw new Error(`no series ${name} matches`);
    return all.map((each) =>
      isMatch(each, name, match) ? { name, labels: { ...each.labels, ...labels }, values } : each,
    );
  };
}

/** A machine that is off: Prometheus has nothing of it but the failed scrape. */
function off(node: NodeName) {
  return (all: readonly Series[]): readonly Series[] =>
    set(
      'up',
      { node },
      constant(0),
    )(all.filter(({ name, labels }) => labels['node'] !== node || name === 'up'));
}

/** A member of etcd that does not respond on its node. */
function silentMember(node: NodeName, etcd: string) {
  return (all: readonly Series[]): readonly Series[] =>
    set(
      'cluster_program_up',
      { node, etcd },
      constant(0),
    )(
      all.filter(
        ({ name, labels }) =>
          labels['node'] !== node || labels['etcd'] !== etcd || name === 'cluster_program_up',
      ),
    );
}

type Fault = RuleCase['fault'];
const both =
  (...faults: readonly Fault[]): Fault =>
  (all) =>
    faults.reduce((series, fault) => fault(series), all);

/** A fault: the balancers of these nodes report that the API server of `n2` does not respond. */
const silentServer = (...nodes: readonly NodeName[]): Fault =>
  both(
    ...nodes.map((node) =>
      set('cluster_balancer_upstream_verdict', { node, server: `${address('n2')}:6443` }, constant(1), {
        verdict: 'silent',
      }),
    ),
  );
const slow = (name: string, bounds: readonly number[]): Fault =>
  both(
    ...bounds.map((le) => set(`${name}_bucket`, { node: 'n3', etcd: 'state', le: String(le) }, constant(0))),
  );
const freeBytes = (share: number): Fault =>
  set('cluster_filesystem_available_bytes', { node: 'n4' }, constant(share * 100 * GIB));
/** 50 GiB are left until less than 10% is free. */
const fullIn = (days: number): Fault =>
  set(
    'cluster_filesystem_growth_bytes_per_second',
    { node: 'n4' },
    constant((50 * GIB) / (days * DAY_SECONDS)),
  );
const freeInodes = (share: number): Fault =>
  set('cluster_filesystem_inodes_free', { node: 'n4' }, constant(share * 1e6));
const expiry = (certificate: string, seconds: number): Fault =>
  set('cluster_certificate_expiry_seconds', { node: 'n1', certificate }, constant(seconds));
const notUp = (program: string, node: NodeName): Fault =>
  set('cluster_program_up', { program, node }, constant(0));
const add =
  (name: string, labels: Match): Fault =>
  (all) => [...all, { name, labels: { job: 'cluster-nodes', ...labels }, values: constant(1) }];
const databases = (bytes: number, inUse: number): Fault =>
  both(
    set('etcd_mvcc_db_total_size_in_bytes', { node: 'n1', etcd: 'state' }, constant(bytes)),
    set('etcd_mvcc_db_total_size_in_use_in_bytes', { node: 'n1', etcd: 'state' }, constant(inUse)),
  );

function one(alert: string, severity: Fired['severity'], node?: NodeName): Pick<RuleCase, 'fires'> {
  return { fires: [{ alert, severity, ...(node !== undefined && { node }) }] };
}

/** At least one fault for each alert and severity. */
export const RULE_CASES: readonly RuleCase[] = [
  { name: 'a healthy cluster', fault: (all) => all, fires: [] },
  { name: 'no target', fault: () => [], ...one('ClusterUnwatched', 'critical') },
  {
    name: 'a clock that is 400 s ahead',
    fault: set('cluster_node_time_seconds', { node: 'n4' }, growing(60, 400)),
    ...one('ClusterClock', 'critical', 'n4'),
  },
  {
    name: 'a clock that is 100 s behind',
    fault: set('cluster_node_time_seconds', { node: 'n4' }, growing(60, -100)),
    ...one('ClusterClock', 'warning', 'n4'),
  },
  {
    name: 'a full etcd',
    fault: set('cluster_etcd_alarm', { etcd: 'kubernetes', alarm: 'NOSPACE' }, constant(1)),
    ...one('ClusterEtcdFull', 'critical'),
  },
  {
    name: 'an etcd that found members with different content',
    fault: set('cluster_etcd_alarm', { etcd: 'kubernetes', alarm: 'CORRUPT' }, constant(1)),
    ...one('ClusterEtcdCorrupt', 'critical'),
  },
  {
    name: 'an etcd whose members differ',
    fault: set('cluster_etcd_content_differs', { etcd: 'kubernetes' }, constant(1)),
    ...one('ClusterEtcdContent', 'critical'),
  },
  {
    name: 'an etcd whose members see no leader',
    fault: set('etcd_server_has_leader', { etcd: 'state' }, constant(0)),
    ...one('ClusterEtcdQuorum', 'critical'),
  },
  {
    name: 'an etcd none of whose members responds',
    fault: both(...CONTROL_PLANES.map((node) => silentMember(node, 'state'))),
    ...one('ClusterEtcdQuorum', 'critical'),
  },
  {
    name: 'two control planes that are off',
    fault: both(off('n2'), off('n3'), set('etcd_server_has_leader', {}, constant(0))),
    fires: [{ alert: 'ClusterEtcdQuorum', severity: 'critical', count: ETCDS.length }],
  },
  {
    name: 'no node that Prometheus reaches',
    fault: both(...NODES.map(off)),
    fires: NODES.map((node) => ({ alert: 'ClusterNodeSilent', severity: 'critical', node })),
  },
  { name: 'a worker that is off', fault: off('n4'), ...one('ClusterNodeSilent', 'critical', 'n4') },
  {
    name: 'a control plane that is off',
    fault: both(off('n2'), silentServer('n1', 'n3', 'n4')),
    ...one('ClusterNodeSilent', 'critical', 'n2'),
  },
  {
    name: 'an agent that does not respond',
    fault: notUp('agent', 'n4'),
    ...one('ClusterNodeSilent', 'critical', 'n4'),
  },
  { name: '9% of a disk free', fault: freeBytes(0.09), ...one('ClusterDiskSpace', 'critical', 'n4') },
  { name: '14% of a disk free', fault: freeBytes(0.14), ...one('ClusterDiskSpace', 'warning', 'n4') },
  {
    name: 'a disk that is full in six days',
    fault: fullIn(6),
    ...one('ClusterDiskGrowth', 'warning', 'n4'),
  },
  { name: 'a disk that is full in eight days', fault: fullIn(8), fires: [] },
  { name: '4% of the inodes free', fault: freeInodes(0.04), ...one('ClusterDiskInodes', 'critical', 'n4') },
  { name: '9% of the inodes free', fault: freeInodes(0.09), ...one('ClusterDiskInodes', 'warning', 'n4') },
  {
    name: 'a member of etcd that does not respond',
    fault: silentMember('n3', 'state'),
    ...one('ClusterEtcdMember', 'critical', 'n3'),
  },
  {
    name: 'a member of etcd that sees no leader',
    fault: set('etcd_server_has_leader', { node: 'n3', etcd: 'kubernetes' }, constant(0)),
    ...one('ClusterEtcdMember', 'critical', 'n3'),
  },
  {
    name: 'a curator that does not respond',
    fault: notUp('joinservice', 'n2'),
    ...one('ClusterCurator', 'critical', 'n2'),
  },
  {
    name: 'an API server that no balancer sees as healthy',
    fault: silentServer(...NODES),
    ...one('ClusterApiServer', 'critical', 'n2'),
  },
  {
    name: 'an API server that one node does not reach',
    fault: silentServer('n4'),
    ...one('ClusterBalancer', 'warning', 'n2'),
  },
  {
    name: 'a scheduler that is not ready',
    fault: set(
      'cluster_control_plane_component_ready',
      { node: 'n2', component: 'kube-scheduler' },
      constant(0),
    ),
    ...one('ClusterControlPlane', 'critical', 'n2'),
  },
  {
    name: 'a kubelet that does not respond',
    fault: notUp('kubelet', 'n4'),
    ...one('ClusterKubelet', 'critical', 'n4'),
  },
  {
    name: 'a kubelet that does not respond, in the minute in which a scrape fails',
    fault: both(notUp('kubelet', 'n4'), set('up', { node: 'n4' }, '1x60 0 1x39')),
    ...one('ClusterKubelet', 'critical', 'n4'),
    atMinutes: 61,
  },
  {
    name: 'a part of an agent that fails',
    fault: add('cluster_agent_runnable_failing', { node: 'n4', path: 'root.renewal' }),
    ...one('ClusterNodeError', 'critical', 'n4'),
  },
  {
    name: 'a part of an agent that has ended',
    fault: set('cluster_agent_runnable_state', { node: 'n4' }, constant(1), { state: 'dead' }),
    ...one('ClusterAgent', 'warning', 'n4'),
  },
  {
    name: 'an expired certificate',
    fault: expiry(CERTIFICATE, -1),
    ...one('ClusterCertificate', 'critical', 'n1'),
  },
  {
    name: 'a certificate that is not renewed',
    fault: expiry(CERTIFICATE, DAY_SECONDS - 1),
    ...one('ClusterCertificate', 'warning', 'n1'),
  },
  { name: 'an expired authority', fault: expiry(CA, -1), ...one('ClusterCa', 'critical', 'n1') },
  {
    name: 'an authority with 89 days left',
    fault: expiry(CA, 89 * DAY_SECONDS),
    ...one('ClusterCa', 'warning', 'n1'),
  },
  {
    name: 'a backup that is three periods old',
    fault: set('cluster_backup_period_seconds', {}, constant(1_800)),
    ...one('ClusterBackup', 'warning'),
  },
  {
    name: 'a backup that is nine periods old',
    fault: set('cluster_backup_period_seconds', {}, constant(600)),
    ...one('ClusterBackup', 'critical'),
  },
  {
    name: 'copies of backups that fail',
    fault: set('cluster_backup_copies_failing', { node: 'n2' }, constant(1)),
    ...one('ClusterBackupCopies', 'critical', 'n2'),
  },
  {
    name: 'a schedule of backups that ends in 29 days',
    fault: set('cluster_backup_schedule_end_timestamp_seconds', {}, constant(29 * DAY_SECONDS)),
    ...one('ClusterBackupSchedule', 'warning'),
  },
  {
    name: 'a schedule of backups that has ended',
    fault: set('cluster_backup_schedule_end_timestamp_seconds', {}, constant(-1)),
    ...one('ClusterBackupSchedule', 'critical'),
  },
  {
    name: 'a learner that is not promoted',
    fault: set('etcd_server_is_learner', { node: 'n3', etcd: 'state' }, constant(1)),
    ...one('ClusterEtcdLearner', 'warning', 'n3'),
  },
  {
    name: 'a database of 81% of its quota',
    fault: databases(1.62 * GIB, 1.6 * GIB),
    ...one('ClusterEtcdSize', 'warning'),
  },
  {
    name: 'a database that is mostly unused',
    fault: databases(0.5 * GIB, 0.2 * GIB),
    ...one('ClusterEtcdUnused', 'warning', 'n1'),
  },
  {
    name: 'a small database that is mostly unused',
    fault: databases(0.2 * GIB, 0.05 * GIB),
    fires: [],
  },
  {
    name: 'a slow disk',
    fault: slow('etcd_disk_wal_fsync_duration_seconds', [0.001, 0.004, 0.008]),
    ...one('ClusterFsync', 'warning', 'n3'),
  },
  {
    name: 'a slow network',
    fault: slow('etcd_network_peer_round_trip_time_seconds', [0.0008, 0.0512, 0.1024]),
    ...one('ClusterLatency', 'warning', 'n3'),
  },
  {
    name: 'a node that is far from another one',
    fault: set('cluster_pod_network_round_trip_seconds', { node: 'n4', peer: '10.244.0.0' }, constant(0.101)),
    ...one('ClusterNodeLatency', 'warning', 'n4'),
  },
];
