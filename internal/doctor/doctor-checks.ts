import type { Check } from '../preflight/index.ts';
import type { Alert } from './alerts/alert.ts';
import { ALERTS, type CheckCode } from './alerts/alerts.ts';
import * as backup from './checks/backup-checks.ts';
import * as clocks from './checks/clock-checks.ts';
import * as controlPlane from './checks/control-plane-checks.ts';
import * as etcd from './checks/etcd-checks.ts';
import * as evidence from './checks/evidence-checks.ts';
import * as etcdContent from './checks/etcd-content-checks.ts';
import * as host from './checks/host-checks.ts';
import * as expiry from './checks/expiry-checks.ts';
import * as kubernetes from './checks/kubernetes-checks.ts';
import * as local from './checks/local-checks.ts';
import * as member from './checks/member-checks.ts';
import * as node from './checks/node-checks.ts';
import { nodeLatency } from './checks/node-latency-checks.ts';
import * as workload from './checks/workload-checks.ts';
import * as podNetwork from './checks/pod-network-checks.ts';
import * as workstation from './checks/workstation-checks.ts';
import type { ClusterFacts } from './cluster-facts.ts';
import { doctorErrors, type DoctorErrorCode } from './errors.ts';
import type { Observe } from './observe.ts';

/** The layers of a cluster, in the order of the report. */
export const LAYERS = [
  'workstation',
  'nodes',
  'disks',
  'etcd',
  'control plane',
  'kubernetes',
  'workloads',
  'certificates and documents',
  'backups',
] as const;
/** One of `LAYERS`. */
export type Layer = (typeof LAYERS)[number];

/** A check of the cluster. */
export interface DoctorCheck extends Check<ClusterFacts> {
  readonly code: DoctorErrorCode;
  readonly layer: Layer;
  /** Says what the check examines: a clause for the documentation. */
  readonly what: string;
  /** Codes of later checks whose problems follow from a failure of this one, on the same node or in the whole cluster. */
  readonly explains: readonly DoctorErrorCode[];
  /** Whether facts that were collected on the machine itself have what the check judges. */
  readonly isOfMachine: boolean;
  /** The Prometheus alert for the same problem, or the reason why there is no alert. */
  readonly alert: Alert;
}

const ALL = Object.keys(doctorErrors) as DoctorErrorCode[];
/** The checks that fail when the machine of a node fails. */
const OF_A_MACHINE: readonly DoctorErrorCode[] = [
  'doctor-clock',
  'doctor-etcd-quorum',
  'doctor-disk-space',
  'doctor-disk-growth',
  'doctor-disk-inodes',
  'doctor-etcd-member',
  'doctor-curator',
  'doctor-join-service',
  'doctor-api-server',
  'doctor-kubeconfig',
  'doctor-control-plane',
  'doctor-machine',
  'doctor-host-service',
  'doctor-kubelet',
  'doctor-node-pressure',
  'doctor-node-error',
  'doctor-balancer',
  'doctor-backup-copies',
  'doctor-network',
  'doctor-pod-network',
  'doctor-mtu',
  'doctor-node-latency',
  'doctor-proxy',
  'doctor-dns',
  'doctor-name-lookup',
  'doctor-deployment',
  'doctor-pods',
  'doctor-keys',
  'doctor-agent',
  'doctor-backup',
];
/** The checks that fail when an API server or an etcd member fails. */
const OF_A_MEMBER: readonly DoctorErrorCode[] = [
  'doctor-etcd-quorum',
  'doctor-curator',
  'doctor-join-service',
  'doctor-api-server',
  'doctor-kubeconfig',
  'doctor-control-plane',
  'doctor-node-error',
  'doctor-balancer',
  'doctor-pods',
  'doctor-latency',
  'doctor-backup',
];
const OF_A_KUBELET: readonly DoctorErrorCode[] = [
  'doctor-disk-space',
  'doctor-disk-growth',
  'doctor-disk-inodes',
  'doctor-node-pressure',
  'doctor-node-error',
  'doctor-network',
  'doctor-pod-network',
  'doctor-mtu',
  'doctor-proxy',
  'doctor-dns',
  'doctor-name-lookup',
  'doctor-pods',
];

const OF_DNS: readonly DoctorErrorCode[] = ['doctor-dns', 'doctor-name-lookup'];

/** The checks that fail when the kubelet or containerd does not run. Containers keep running for a while. */
const OF_A_SERVICE: readonly DoctorErrorCode[] = [
  ...OF_A_KUBELET,
  'doctor-api-server',
  'doctor-control-plane',
  'doctor-kubelet',
  'doctor-balancer',
];
/** The checks that need no more than what a machine knows about itself. */
const OF_MACHINE_FACTS: ReadonlySet<CheckCode> = new Set([
  ...(['doctor-machine-network', 'doctor-machine-units', 'doctor-machine-requirements'] as const),
  ...(['doctor-disk-space', 'doctor-disk-inodes', 'doctor-fsync', 'doctor-balancer'] as const),
  ...(['doctor-etcd-member', 'doctor-etcd-unused', 'doctor-latency', 'doctor-api-server'] as const),
  ...(['doctor-certificate', 'doctor-ca'] as const),
]);
/** What stops when the system around the programs of a node fails: its network, its disks, its settings. */
const OF_THE_SYSTEM: readonly DoctorErrorCode[] = [...OF_A_MACHINE, 'doctor-machine-units'];

type Entry = Pick<DoctorCheck, 'layer' | 'what' | 'explains'> & {
  readonly code: CheckCode;
  readonly observe: Observe;
};

function entry(
  code: CheckCode,
  layer: Layer,
  rest: { readonly what: string; readonly observe: Observe; readonly explains?: readonly DoctorErrorCode[] },
): Entry {
  return { code, layer, explains: [], ...rest };
}

/** The checks in causal order: a check comes before the checks whose problems it can explain. */
const ENTRIES: readonly Entry[] = [
  entry('doctor-clock', 'workstation', {
    what: 'the clocks of the control planes against the clock of the workstation, and those of other nodes against the control plane that receives their heartbeats',
    observe: clocks.clock,
    explains: ALL,
  }),
  entry('doctor-credentials', 'workstation', {
    what: 'the expiry of the certificate for curators and of the certificate in the kubeconfig',
    observe: workstation.credentials,
    explains: ['doctor-curator', 'doctor-api-server', 'doctor-kubernetes'],
  }),
  entry('doctor-host-name', 'workstation', {
    what: 'the addresses of the host names that the workspace uses, as the workstation resolves them',
    observe: workstation.hostName,
    explains: [
      'doctor-curator',
      'doctor-join-service',
      'doctor-api-server',
      'doctor-kubeconfig',
      'doctor-kubernetes',
    ],
  }),
  entry('doctor-etcd-full', 'etcd', {
    what: 'the alarm of a full database, for each of the two etcd clusters',
    observe: etcd.full,
    explains: ALL,
  }),
  entry('doctor-etcd-corrupt', 'etcd', {
    what: 'the alarm of etcd’s own corruption checks, for each of the two etcd clusters',
    observe: etcdContent.corrupt,
    explains: ALL,
  }),
  entry('doctor-etcd-quorum', 'etcd', {
    what: 'leader, quorum and healthy voters of each etcd cluster',
    observe: etcd.quorum,
    explains: ALL,
  }),
  entry('doctor-etcd-content', 'etcd', {
    what: 'whether all members of each etcd have the same content, which the control plane of the leader compares every hour',
    observe: etcdContent.content,
    explains: ['doctor-etcd-member', ...OF_A_MEMBER],
  }),
  entry('doctor-node-silent', 'nodes', {
    what: 'the heartbeats of each node',
    observe: node.silent,
    explains: [...OF_A_MACHINE, 'doctor-evidence'],
  }),
  entry('doctor-machine', 'nodes', {
    what: 'read-only file systems, kernel parameters and modules, swap, cgroups and name servers of each node, while it runs',
    observe: host.machine,
    explains: ['doctor-host-service', 'doctor-etcd-member', 'doctor-agent', ...OF_A_SERVICE],
  }),
  entry('doctor-host-service', 'nodes', {
    what: 'the services that each node needs (kubelet, containerd), as its agent sees them',
    observe: host.service,
    explains: OF_A_SERVICE,
  }),
  entry('doctor-machine-network', 'nodes', {
    what: 'the address of a node, and whether it reaches the other control planes, as its machine sees it',
    observe: local.network,
    explains: [...OF_THE_SYSTEM, 'doctor-machine-requirements'],
  }),
  entry('doctor-disk-space', 'disks', {
    what: 'free space of the file systems of the kubelet and of the container images on each node',
    observe: node.space,
    explains: OF_THE_SYSTEM,
  }),
  entry('doctor-disk-inodes', 'disks', {
    what: 'free inodes of the file systems of the kubelet and of the container images on each node',
    observe: node.inodes,
    explains: OF_THE_SYSTEM,
  }),
  entry('doctor-machine-units', 'nodes', {
    what: 'the systemd units of a node, as its machine sees them',
    observe: local.units,
    explains: [...OF_A_MEMBER, ...OF_A_KUBELET, 'doctor-etcd-member'],
  }),
  entry('doctor-machine-requirements', 'nodes', {
    what: 'the checks of `cluster preflight`, on the machine of a node',
    observe: local.requirements,
  }),
  entry('doctor-certificate', 'certificates and documents', {
    what: 'for each node, the certificate that expires first',
    observe: expiry.certificate,
    explains: [...OF_A_MEMBER, 'doctor-etcd-member', 'doctor-kubelet'],
  }),
  entry('doctor-etcd-member', 'etcd', {
    what: 'whether each etcd member responds on its node and sees a leader',
    observe: etcd.member,
    explains: OF_A_MEMBER,
  }),
  entry('doctor-curator', 'control plane', {
    what: 'whether each curator serves the workstation',
    observe: controlPlane.curator,
    explains: ['doctor-clock', 'doctor-join-service'],
  }),
  entry('doctor-join-service', 'control plane', {
    what: 'whether the join service of each control plane accepts connections of the workstation',
    observe: controlPlane.joinService,
  }),
  entry('doctor-api-server', 'control plane', {
    what: 'whether each API server serves the workstation',
    observe: controlPlane.apiServer,
    explains: [
      'doctor-clock',
      'doctor-control-plane',
      'doctor-kubeconfig',
      'doctor-kubernetes',
      'doctor-node-error',
      'doctor-balancer',
      'doctor-pods',
    ],
  }),
  entry('doctor-kubeconfig', 'workstation', {
    what: 'the server that the kubeconfig of the workspace names',
    observe: workstation.kubeconfig,
  }),
  entry('doctor-control-plane', 'control plane', {
    what: 'the components of the control plane as the agent of each node sees them',
    observe: controlPlane.component,
    explains: ['doctor-node-error', 'doctor-balancer', 'doctor-pods'],
  }),
  entry('doctor-kubernetes', 'control plane', {
    what: 'whether the Kubernetes API could be read',
    observe: controlPlane.kubernetes,
  }),
  entry('doctor-kubelet', 'kubernetes', {
    what: 'whether each kubelet responds and its node is Ready',
    observe: kubernetes.kubelet,
    explains: OF_A_KUBELET,
  }),
  entry('doctor-node-pressure', 'kubernetes', {
    what: 'memory, disk and process-id pressure of each node',
    observe: kubernetes.pressure,
    explains: ['doctor-network', 'doctor-proxy', ...OF_DNS, 'doctor-pods'],
  }),
  entry('doctor-webhook', 'kubernetes', {
    what: 'the services behind admission webhooks',
    observe: kubernetes.webhook,
    explains: ['doctor-network', 'doctor-proxy', ...OF_DNS, 'doctor-deployment', 'doctor-pods'],
  }),
  entry('doctor-api-service', 'kubernetes', {
    what: 'parts of the Kubernetes API that other servers answer, such as metrics',
    observe: kubernetes.api,
    explains: ['doctor-namespace'],
  }),
  entry('doctor-network', 'kubernetes', {
    what: 'a ready pod of the network chart on each node',
    observe: kubernetes.network,
    explains: ['doctor-pod-network', 'doctor-mtu', ...OF_DNS, 'doctor-pods'],
  }),
  entry('doctor-pod-network', 'kubernetes', {
    what: 'whether nodes answer each other through the network of pods; each agent probes up to eight other nodes',
    observe: podNetwork.podNetwork,
    explains: [...OF_DNS, 'doctor-pods'],
  }),
  entry('doctor-mtu', 'kubernetes', {
    what: 'whether full-size packets arrive at other nodes through the network of pods; each agent tries up to eight other nodes, one a minute',
    observe: podNetwork.mtu,
    explains: [...OF_DNS, 'doctor-pods'],
  }),
  entry('doctor-node-latency', 'kubernetes', {
    what: 'the usual round trip from each node to other nodes through the network of pods; each agent measures up to eight other nodes',
    observe: nodeLatency,
  }),
  entry('doctor-proxy', 'kubernetes', {
    what: 'a ready kube-proxy on each node',
    observe: kubernetes.proxy,
    explains: [...OF_DNS, 'doctor-pods'],
  }),
  entry('doctor-dns', 'kubernetes', {
    what: 'ready CoreDNS pods',
    observe: kubernetes.dns,
    explains: ['doctor-name-lookup', 'doctor-pods'],
  }),
  entry('doctor-name-lookup', 'kubernetes', {
    what: 'whether the DNS of the cluster answers each node, as it answers pods there; each agent asks twice a minute',
    observe: podNetwork.nameLookup,
    explains: ['doctor-pods'],
  }),
  entry('doctor-balancer', 'nodes', {
    what: 'the API servers as the balancer of each node sees them',
    observe: node.balancer,
  }),
  entry('doctor-node-error', 'nodes', {
    what: 'the most severe error that each agent reports',
    observe: node.lastError,
  }),
  entry('doctor-agent', 'nodes', {
    what: 'parts of each agent that have ended',
    observe: node.agent,
  }),
  entry('doctor-evidence', 'nodes', {
    what: 'fresh evidence of each node (TPM, reference values, node lock) against the policy and the machine on record, as `cluster verify NODE` judges it',
    observe: evidence.evidence,
  }),
  entry('doctor-ca', 'certificates and documents', {
    what: 'for each node, the CA that expires first',
    observe: expiry.ca,
  }),
  entry('doctor-keys', 'certificates and documents', {
    what: 'the rotation of the shared keys',
    observe: expiry.keys,
  }),
  entry('doctor-servers-ca', 'certificates and documents', {
    what: 'pods that started before the CA of API servers was replaced',
    observe: kubernetes.serversCa,
  }),
  entry('doctor-old-disk', 'certificates and documents', {
    what: 'nodes on an old copy of their disk',
    observe: expiry.oldDisk,
  }),
  entry('doctor-removal-unmerged', 'nodes', {
    what: 'members that a worker knows as removed, after a restore from a backup that is older than the removal',
    observe: host.unmerged,
  }),
  entry('doctor-document', 'certificates and documents', {
    what: 'when the owner-signed documents expire',
    observe: expiry.document,
  }),
  entry('doctor-collateral', 'certificates and documents', {
    what: 'when the collateral of AMD and Intel expires',
    observe: expiry.collateral,
  }),
  entry('doctor-join', 'nodes', { what: 'join requests that were refused', observe: expiry.join }),
  entry('doctor-backup-schedule', 'backups', {
    what: 'when the owner’s signature on the schedule of backups expires, and control planes that the schedule does not name',
    observe: backup.schedule,
    explains: ['doctor-backup'],
  }),
  entry('doctor-backup', 'backups', {
    what: 'age and proof of the newest scheduled backup, and the last attempt',
    observe: backup.backup,
  }),
  entry('doctor-backup-proof', 'backups', {
    what: 'whether the unencrypted data of the proofs of scheduled backups was in memory or on an encrypted disk',
    observe: backup.proof,
  }),
  entry('doctor-backup-copies', 'backups', {
    what: 'copies of scheduled backups in the directory or the store that the schedule names',
    observe: backup.copies,
  }),
  entry('doctor-etcd-learner', 'etcd', {
    what: 'etcd learners that are not promoted to voters',
    observe: etcd.learner,
  }),
  entry('doctor-etcd-size', 'etcd', {
    what: 'the size of each etcd database against its quota',
    observe: etcd.size,
  }),
  entry('doctor-etcd-unused', 'etcd', {
    what: 'unused pages of each etcd database, which a defragmentation would free',
    observe: member.unused,
  }),
  entry('doctor-disk-growth', 'disks', {
    what: 'when the file systems of the kubelet and of the container images are full at their growth of the last days',
    observe: node.growth,
  }),
  entry('doctor-disk-clear', 'disks', {
    what: 'whether the directories with secrets and data of each node are encrypted or in the clear',
    observe: node.encryption,
  }),
  entry('doctor-fsync', 'disks', {
    what: 'how long an fsync of each etcd member takes, measured over 5 s, and again if it is slow',
    observe: member.fsync,
  }),
  entry('doctor-latency', 'etcd', {
    what: 'the usual round trip from each etcd member to each other one',
    observe: member.latency,
  }),
  entry('doctor-deployment', 'workloads', {
    what: 'deployments whose pods Kubernetes cannot create',
    observe: workload.deployment,
  }),
  entry('doctor-namespace', 'workloads', {
    what: 'namespaces whose deletion does not end',
    observe: workload.namespace,
  }),
  entry('doctor-pods', 'workloads', { what: 'pods that are not ready', observe: workload.pods }),
  entry('doctor-budget', 'workloads', {
    what: 'disruption budgets that would block a drain',
    observe: workload.budget,
  }),
  entry('doctor-chart', 'workloads', {
    what: 'whether each chart of the workspace is deployed in the cluster as cluster.yaml says',
    observe: workload.chart,
  }),
  entry('doctor-kubernetes-support', 'kubernetes', {
    what: 'when the support of the version of Kubernetes on the nodes ends',
    observe: expiry.kubernetesSupport,
  }),
  entry('doctor-skew', 'workstation', {
    what: 'versions of CLI, agents, API servers and kubelets',
    observe: workstation.skew,
  }),
];

/** All checks of a cluster, likely causes first. */
export const DOCTOR_CHECKS: readonly DoctorCheck[] = ENTRIES.map((each) => ({
  ...each,
  fix: doctorErrors[each.code].fix,
  isOfMachine: OF_MACHINE_FACTS.has(each.code),
  alert: ALERTS[each.code],
}));
