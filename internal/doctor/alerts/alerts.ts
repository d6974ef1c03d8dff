import { MINUTE_MS } from '../../clock/index.ts';
import { PORTS } from '../../endpoint/index.ts';
import { MAX_CLOCK_OFFSET_MS } from '../../preflight/index.ts';
import type { DoctorErrorCode } from '../errors.ts';
import * as limits from '../thresholds.ts';
import type { Alert } from './alert.ts';

/** The error codes that belong to checks. The other codes of this directory are about files with saved facts. */
export type CheckCode = Exclude<
  DoctorErrorCode,
  `doctor-facts-${string}` | 'doctor-node-unknown' | 'doctor-change-unsafe' | 'doctor-backup-damaged'
>;

/** The targets that the chart `monitoring` configures. They have the labels `node`, `address` and, on control planes, `control_plane`. */
export const NODES = 'job="cluster-nodes"';

const KUBE_STATE = 'the check reads objects of the Kubernetes API, whose metrics kube-state-metrics exports';
const LOCAL = 'the check reads facts that only a support bundle of the machine itself has';
const RECORDS = 'the check reads a record of the cluster that no program exports as a metric yet';

const seconds = (ms: number): number => ms / 1_000;

const CA = 'certificate=~"(.*[/-])?ca[.]crt"';
const NOT_CA = CA.replace('=~', '!~');
const EXPIRY = 'cluster_certificate_expiry_seconds';
/** A warning is due when this much of a lifetime is left: less time for a certificate with a short lifetime. */
const RENEWAL_FAILING = `clamp_max(cluster_certificate_lifetime_seconds * ${limits.RENEWAL_FAILING_SHARE}, ${seconds(limits.CERTIFICATE_WARNING_MS)})`;

const VERDICT = 'cluster_balancer_upstream_verdict';
/** The share of the balancers that see each API server ("IP:6443") as healthy. */
const HEALTHY_SHARE = `(count by (server) (${VERDICT}{verdict="healthy"}) or count by (server) (${VERDICT}) * 0) / count by (server) (${VERDICT})`;
const CONTROL_PLANES = `up{${NODES},control_plane="true"}`;
const SERVERS = `label_replace(${CONTROL_PLANES}, "server", "$1:${PORTS.apiServer}", "address", "(.+)")`;
/** The value 1 for each API server, with the label of the node that has the same address. IPv6 addresses are in brackets. */
const SERVER_NODES = `label_replace(${SERVERS}, "server", "[$1]:${PORTS.apiServer}", "address", "(.+:.+)") * 0 + 1`;
const API_SERVERS = `sum by (node) (${HEALTHY_SHARE} * on (server) group_left (node) (${SERVER_NODES}))`;

/**
 * PromQL of the age that the newest backup has when this many periods have passed without a backup. Includes the time
 * for taking and proving one.
 */
function missed(periods: number): string {
  return `${periods} * max(cluster_backup_period_seconds) + ${seconds(limits.BACKUP_GRACE_MS)}`;
}

/** The alert of each check. The thresholds are those of the check. */
export const ALERTS: Readonly<Record<CheckCode, Alert>> = {
  'doctor-clock': {
    ...{ scope: 'node', unit: 's', is: '>', forMinutes: 2 },
    figure: 'abs(cluster_node_time_seconds - timestamp(cluster_node_time_seconds))',
    limits: { critical: seconds(MAX_CLOCK_OFFSET_MS), warning: seconds(limits.CLOCK_WARNING_MS) },
    summary:
      'The clock of {{ $labels.node }} differs by {{ $value | humanizeDuration }} from the clock of Prometheus',
  },
  'doctor-credentials': { none: 'the check is about the workstation of an operator' },
  'doctor-host-name': { none: 'the check is about the workstation of an operator' },
  'doctor-kubeconfig': { none: 'the check is about the workstation of an operator' },
  'doctor-etcd-full': {
    ...{ scope: 'cluster', unit: 'bool', is: '==', forMinutes: 1 },
    figure: 'max by (etcd) (cluster_etcd_alarm{alarm="NOSPACE"})',
    limits: { critical: 1 },
    summary: 'The {{ $labels.etcd }} etcd is full and refuses every write',
  },
  'doctor-etcd-corrupt': {
    ...{ scope: 'cluster', unit: 'bool', is: '==', forMinutes: 1 },
    figure: 'max by (etcd) (cluster_etcd_alarm{alarm="CORRUPT"})',
    limits: { critical: 1 },
    summary: 'The {{ $labels.etcd }} etcd has found members with different content and refuses every request',
  },
  'doctor-etcd-content': {
    ...{ scope: 'cluster', unit: 'bool', is: '==', forMinutes: 1 },
    figure: 'max by (etcd) (cluster_etcd_content_differs)',
    limits: { critical: 1 },
    summary: 'Members of the {{ $labels.etcd }} etcd have different content',
  },
  'doctor-etcd-quorum': {
    ...{ scope: 'cluster', unit: 'bool', is: '==', forMinutes: 1 },
    // A member that does not respond counts as one that sees no leader. If Prometheus reaches no control plane, this
    // rule has no series and does not fire.
    figure: 'max by (etcd) (etcd_server_has_leader or cluster_program_up{program="etcd"} == 0)',
    limits: { critical: 0 },
    summary: 'The {{ $labels.etcd }} etcd has no quorum: no member that Prometheus reaches sees a leader',
  },
  'doctor-node-silent': {
    ...{ scope: 'node', unit: 'bool', is: '==', forMinutes: 2 },
    figure: `min by (node) (up{${NODES}} or cluster_program_up{program="agent"})`,
    limits: { critical: 0 },
    summary: '{{ $labels.node }} does not serve its metrics, or its agent does not respond',
  },
  'doctor-disk-space': {
    ...{ scope: 'node', unit: 'percentunit', is: '<', forMinutes: 5 },
    figure: 'min by (node) (cluster_filesystem_available_bytes / cluster_filesystem_size_bytes)',
    limits: { critical: limits.SPACE_ERROR_SHARE, warning: limits.SPACE_WARNING_SHARE },
    summary: 'A file system of {{ $labels.node }} has {{ $value | humanizePercentage }} free',
  },
  'doctor-disk-growth': {
    ...{ scope: 'node', unit: 's', is: '<=', forMinutes: 60 },
    figure: `min by (node) ((cluster_filesystem_available_bytes - cluster_filesystem_size_bytes * ${limits.SPACE_ERROR_SHARE}) / (cluster_filesystem_growth_bytes_per_second > 0))`,
    limits: { warning: seconds(limits.GROWTH_WARNING_MS) },
    summary:
      'At its growth of the last days, a file system of {{ $labels.node }} is full in {{ $value | humanizeDuration }}',
  },
  'doctor-disk-inodes': {
    ...{ scope: 'node', unit: 'percentunit', is: '<', forMinutes: 5 },
    figure: 'min by (node) (cluster_filesystem_inodes_free / (cluster_filesystem_inodes > 0))',
    limits: { critical: limits.INODES_ERROR_SHARE, warning: limits.INODES_WARNING_SHARE },
    summary: 'A file system of {{ $labels.node }} has {{ $value | humanizePercentage }} of its inodes free',
  },
  'doctor-etcd-member': {
    ...{ scope: 'node', unit: 'bool', is: '==', forMinutes: 2 },
    figure: 'min by (node, etcd) (cluster_program_up{program="etcd"} or etcd_server_has_leader)',
    limits: { critical: 0 },
    summary: 'The {{ $labels.etcd }} etcd on {{ $labels.node }} does not respond, or sees no leader',
  },
  'doctor-curator': {
    ...{ scope: 'node', unit: 'bool', is: '==', forMinutes: 2 },
    figure: 'cluster_program_up{program="joinservice"}',
    limits: { critical: 0 },
    summary: 'The curator of {{ $labels.node }} does not respond on its node',
  },
  'doctor-join-service': { none: 'the curator is the same program, and has an alert' },
  'doctor-api-server': {
    ...{ scope: 'node', unit: 'percentunit', is: '==', forMinutes: 2 },
    figure: API_SERVERS,
    limits: { critical: 0 },
    summary: 'No node sees the API server of {{ $labels.node }} as healthy',
  },
  'doctor-control-plane': {
    ...{ scope: 'node', unit: 'bool', is: '==', forMinutes: 5 },
    figure: 'cluster_control_plane_component_ready',
    limits: { critical: 0 },
    summary: '{{ $labels.component }} on {{ $labels.node }} is not ready',
  },
  'doctor-kubernetes': {
    none: 'the check is about the workstation of an operator; the API servers have an alert of their own',
  },
  'doctor-kubelet': {
    ...{ scope: 'node', unit: 'bool', is: '==', forMinutes: 2 },
    figure: 'cluster_program_up{program="kubelet"}',
    limits: { critical: 0 },
    summary: 'The kubelet of {{ $labels.node }} is not healthy, or does not respond on its node',
  },
  'doctor-pod-network': { none: RECORDS },
  'doctor-mtu': { none: RECORDS },
  'doctor-node-latency': {
    ...{ scope: 'node', unit: 's', is: '>', forMinutes: 10 },
    figure: 'max by (node) (cluster_pod_network_round_trip_seconds)',
    limits: { warning: seconds(limits.ROUND_TRIP_WARNING_MS) },
    summary:
      'The median round trip from {{ $labels.node }} to another node takes {{ $value | humanizeDuration }}, through the network of pods',
  },
  'doctor-machine': { none: RECORDS },
  'doctor-host-service': {
    none: 'the check names the cause; the alerts of doctor-kubelet and doctor-etcd-member fire for these services',
  },
  'doctor-node-pressure': { none: KUBE_STATE },
  'doctor-webhook': { none: KUBE_STATE },
  'doctor-api-service': { none: KUBE_STATE },
  'doctor-deployment': { none: KUBE_STATE },
  'doctor-namespace': { none: KUBE_STATE },
  'doctor-network': { none: KUBE_STATE },
  'doctor-proxy': { none: KUBE_STATE },
  'doctor-dns': { none: KUBE_STATE },
  'doctor-name-lookup': { none: RECORDS },
  'doctor-balancer': {
    ...{ scope: 'node', unit: 'percentunit', is: '<', forMinutes: 5 },
    figure: API_SERVERS,
    limits: { warning: 1 },
    summary:
      '{{ $value | humanizePercentage }} of the nodes see the API server of {{ $labels.node }} as healthy',
  },
  'doctor-node-error': {
    ...{ scope: 'node', unit: 'bool', is: '==', forMinutes: 5 },
    figure: 'cluster_agent_runnable_failing',
    limits: { critical: 1 },
    summary: 'On {{ $labels.node }}, {{ $labels.path }} of the agent fails',
  },
  'doctor-agent': {
    ...{ scope: 'node', unit: 'bool', is: '==', forMinutes: 5 },
    figure: 'cluster_agent_runnable_state{state="dead"}',
    limits: { warning: 1 },
    summary: 'On {{ $labels.node }}, {{ $labels.path }} of the agent has ended',
  },
  'doctor-evidence': { none: 'evidence is judged on a workstation, with the machines that its owner knows' },
  'doctor-certificate': {
    ...{ scope: 'node', unit: 's', is: '<=', forMinutes: 10 },
    figure: `${EXPIRY}{${NOT_CA}}`,
    limits: { critical: 0, warning: RENEWAL_FAILING },
    summary: '{{ $labels.certificate }} on {{ $labels.node }} expires in {{ $value | humanizeDuration }}',
  },
  'doctor-ca': {
    ...{ scope: 'node', unit: 's', is: '<=', forMinutes: 10 },
    figure: `${EXPIRY}{${CA}}`,
    limits: { critical: 0, warning: seconds(limits.CA_WARNING_MS) },
    summary: '{{ $labels.certificate }} on {{ $labels.node }} expires in {{ $value | humanizeDuration }}',
  },
  'doctor-machine-network': { none: LOCAL },
  'doctor-machine-requirements': { none: LOCAL },
  'doctor-machine-units': { none: LOCAL },
  'doctor-keys': { none: RECORDS },
  'doctor-servers-ca': { none: KUBE_STATE },
  'doctor-old-disk': { none: RECORDS },
  'doctor-removal-unmerged': { none: RECORDS },
  'doctor-document': { none: RECORDS },
  'doctor-collateral': { none: RECORDS },
  'doctor-join': { none: RECORDS },
  'doctor-backup-schedule': {
    ...{ scope: 'cluster', unit: 's', is: '<=', forMinutes: 10 },
    figure: 'max(cluster_backup_schedule_end_timestamp_seconds) - time()',
    limits: { critical: 0, warning: seconds(limits.DOCUMENT_WARNING_MS) },
    summary: 'The schedule of backups ends in {{ $value | humanizeDuration }}',
  },
  'doctor-backup': {
    ...{ scope: 'cluster', unit: 's', is: '>', forMinutes: 5 },
    figure: 'time() - max(cluster_backup_newest_proved_timestamp_seconds)',
    limits: { critical: missed(limits.BACKUP_ERROR_PERIODS), warning: missed(limits.BACKUP_WARNING_PERIODS) },
    summary: 'The newest proved backup is {{ $value | humanizeDuration }} old',
  },
  'doctor-backup-copies': {
    ...{ scope: 'node', unit: 'bool', is: '==', forMinutes: 10 },
    figure: 'cluster_backup_copies_failing',
    limits: { critical: 1 },
    summary: '{{ $labels.node }} fails to copy its backups to the directory or the store of the schedule',
  },
  'doctor-backup-proof': { none: RECORDS },
  'doctor-etcd-learner': {
    ...{ scope: 'node', unit: 'bool', is: '==', forMinutes: limits.LEARNER_WARNING_MS / MINUTE_MS },
    figure: 'etcd_server_is_learner',
    limits: { warning: 1 },
    summary: 'The {{ $labels.etcd }} etcd on {{ $labels.node }} is a learner, and not promoted',
  },
  'doctor-etcd-size': {
    ...{ scope: 'cluster', unit: 'percentunit', is: '>', forMinutes: 5 },
    figure: 'max by (etcd) (etcd_mvcc_db_total_size_in_bytes / etcd_server_quota_backend_bytes)',
    limits: { warning: limits.DATABASE_WARNING_SHARE },
    summary: 'The {{ $labels.etcd }} etcd uses {{ $value | humanizePercentage }} of its quota',
  },
  'doctor-etcd-unused': {
    ...{ scope: 'node', unit: 'percentunit', is: '>', forMinutes: 60 },
    figure: `(1 - etcd_mvcc_db_total_size_in_use_in_bytes / (etcd_mvcc_db_total_size_in_bytes >= ${limits.UNUSED_MIN_BYTES}))`,
    limits: { warning: limits.UNUSED_WARNING_SHARE },
    summary:
      '{{ $value | humanizePercentage }} of the {{ $labels.etcd }} etcd on {{ $labels.node }} is unused',
  },
  'doctor-disk-clear': { none: 'the encryption of a disk changes only when the disk of a machine is set up' },
  'doctor-fsync': {
    ...{ scope: 'node', unit: 's', is: '>', forMinutes: 10 },
    figure: 'histogram_quantile(0.99, rate(etcd_disk_wal_fsync_duration_seconds_bucket[5m]))',
    limits: { warning: seconds(limits.FSYNC_WARNING_MS) },
    summary:
      'An fsync of the {{ $labels.etcd }} etcd on {{ $labels.node }} takes {{ $value | humanizeDuration }} (p99)',
  },
  'doctor-latency': {
    ...{ scope: 'node', unit: 's', is: '>', forMinutes: 10 },
    figure:
      'max by (node, etcd) (histogram_quantile(0.5, rate(etcd_network_peer_round_trip_time_seconds_bucket[30m])))',
    limits: { warning: seconds(limits.ROUND_TRIP_WARNING_MS) },
    summary:
      'The median round trip from the {{ $labels.etcd }} etcd on {{ $labels.node }} to a peer takes {{ $value | humanizeDuration }}',
  },
  'doctor-pods': { none: KUBE_STATE },
  'doctor-budget': { none: KUBE_STATE },
  'doctor-chart': { none: 'the check is about the charts of a workspace' },
  'doctor-kubernetes-support': {
    none: 'the check compares the version of Kubernetes with dates that the CLI knows',
  },
  'doctor-skew': { none: 'the check compares versions with the version of the CLI' },
};
