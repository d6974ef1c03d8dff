import { formatDuration, formatExpiry } from '../../../internal/clock/index.ts';
import type { HelmRelease } from '../../../internal/kube/index.ts';
import { counted, printable } from '../../../internal/printable/index.ts';
import { quorumOf } from '../../../internal/role/index.ts';
import { NodeHealth, type EtcdStatus, type Node } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { formatBytes } from '../../host/index.ts';
import { describeRotationPhase, type KeysView } from './keys-view.ts';
import { describeDisk, type NodeView } from './node-view.ts';

/** How many nodes a line of the summary names. */
const MAX_NAMES = 5;

/**
 * A part of the status: its value, or why it could not be read. `codes` are the codes of the error and of its
 * causes.
 */
export type Part<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: string; readonly codes: readonly string[] };

/** State of an etcd cluster. */
export type EtcdPart = Readonly<ReturnType<typeof etcdFrom>>;

/**
 * Numbers of voting etcd members: all, those needed for a quorum, the healthy ones, and how many healthy ones
 * may fail without losing the quorum.
 */
export type QuorumPart = Readonly<ReturnType<typeof quorumFrom>>;

/** The part of the status that a curator reports; plain JSON values. */
export interface CuratorPart {
  readonly name: string;
  readonly createdMs: number;
  /** The state etcd. */
  readonly etcd: EtcdPart;
  /** The status of the Kubernetes etcd according to the control planes; undefined if none reports it. */
  readonly kubernetesEtcd: EtcdPart | undefined;
  readonly quorum: QuorumPart;
  /** undefined when the caller may not read join requests. */
  readonly pendingJoins: number | undefined;
  /** undefined from a curator of a version without key rotation. */
  readonly keys?: KeysView | undefined;
  readonly nodes: readonly NodeView[];
}

/** The part of the status that the Kubernetes API reports. */
export interface KubernetesPart {
  readonly server: string;
  /** The server of the kubeconfig, if it did not respond and `server` is another one. */
  readonly silentServer?: string;
  readonly nodes: readonly {
    readonly name: string;
    readonly ready: boolean;
    readonly why: string;
    /** Absent if pods may be placed on the node. */
    readonly isCordoned?: boolean;
  }[];
  readonly pods: { readonly total: number; readonly notReady: readonly string[] };
  /** Releases of helm; undefined if the caller may not list them. */
  readonly charts: readonly HelmRelease[] | undefined;
}

/**
 * The status of the Kubernetes etcd as healthy control planes report it: curators cannot read it, because
 * they have no client certificate for this etcd. A report with a leader is preferred, because a control plane
 * that sees none may be cut off from the others.
 */
export function kubernetesEtcdOf(nodes: readonly Node[]): EtcdStatus | undefined {
  const seen = nodes.flatMap(({ health, status }) =>
    health === NodeHealth.HEALTHY && status?.kubernetesEtcd !== undefined ? [status.kubernetesEtcd] : [],
  );
  return seen.find(({ hasLeader }) => hasLeader) ?? seen[0];
}

/**
 * The same, with the members that do not answer: those whose control planes report no leader although another one reports a leader.
 * The agent of a control plane asks only the member of its own node.
 */
export function kubernetesEtcdFrom(nodes: readonly Node[]): EtcdPart | undefined {
  const chosen = kubernetesEtcdOf(nodes);
  if (chosen === undefined) return undefined;
  const silent = nodes.filter(
    ({ health, status }) =>
      chosen.hasLeader && health === NodeHealth.HEALTHY && status?.kubernetesEtcd?.hasLeader === false,
  );
  return { ...etcdFrom(chosen), silentVoters: silent.map(({ nodeId }) => printable(nodeId)) };
}

/** Converts the etcd status in a curator response to the form that `cluster status` shows. */
export function etcdFrom(etcd: EtcdStatus | undefined) {
  const members = etcd?.members ?? [];
  const voters = members.filter(({ isLearner }) => !isLearner);
  const wereAsked = voters.some(({ answers }) => answers !== undefined);
  return {
    dbSizeBytes: Number(etcd?.dbSizeBytes ?? 0n),
    quotaBytes: Number(etcd?.quotaBytes ?? 0n),
    hasLeader: etcd?.hasLeader ?? false,
    isFull: etcd?.isFull ?? false,
    isCorrupt: etcd?.isCorrupt ?? false,
    members: voters.length,
    learners: members.length - voters.length,
    /** IDs of the nodes whose voters did not answer when they were asked; absent if they were not asked. */
    ...(wereAsked
      ? { silentVoters: voters.filter(({ answers }) => answers !== true).map(({ name }) => printable(name)) }
      : {}),
  };
}

/**
 * Counts a voter as healthy if it answered just now. A curator of an older version does not ask the voters; then those
 * count whose nodes are healthy, which stay so for 15 s or longer after they went down.
 */
export function quorumFrom({ members: voters, silentVoters }: EtcdPart, nodes: readonly NodeView[]) {
  const needed = quorumOf(voters);
  const healthyNodes = nodes.filter(
    ({ roles, health }) => roles.includes('control-plane') && health === 'healthy',
  ).length;
  const healthy = silentVoters === undefined ? Math.min(healthyNodes, voters) : voters - silentVoters.length;
  return { voters, needed, healthy, spare: Math.max(0, healthy - needed) };
}

/** Problems to show below the status, most fundamental first; each names its node, pod or etcd. */
export function problemsOf(
  curator: CuratorPart,
  kubernetes: KubernetesPart | undefined,
  nowMs: number,
): readonly string[] {
  const { etcd, kubernetesEtcd, nodes, quorum } = curator;
  const healthyNodes = nodes.filter(({ health }) => health === 'healthy');
  return [
    ...(etcd.isCorrupt ? [corruptEtcd('the state etcd')] : []),
    ...(kubernetesEtcd?.isCorrupt === true ? [corruptEtcd('the Kubernetes etcd')] : []),
    ...(etcd.isFull ? [fullEtcd('the state etcd')] : []),
    ...(kubernetesEtcd?.isFull === true ? [fullEtcd('the Kubernetes etcd')] : []),
    ...problemsOfEtcd('the state etcd', etcd),
    ...(kubernetesEtcd === undefined ? [] : problemsOfEtcd('the Kubernetes etcd', kubernetesEtcd)),
    // Parts that are hung or down come before what they cause. A node that does not respond reported last when it did.
    ...healthyNodes.flatMap(({ name, machine }) =>
      (machine?.services ?? []).map((service) => `${service.name} on node ${name}: ${service.why}`),
    ),
    ...silentMembers('state etcd', etcd, nodes),
    ...(kubernetesEtcd === undefined ? [] : silentMembers('Kubernetes etcd', kubernetesEtcd, nodes)),
    ...(quorum.healthy < quorum.voters && quorum.spare === 0
      ? [`etcd tolerates no further failure: ${quorum.healthy} of ${quorum.voters} voters are healthy`]
      : []),
    ...nodes
      .filter(({ health }) => health !== 'healthy')
      .map(({ name, health }) => `node ${name} is ${health === 'silent' ? 'not responding' : health}`),
    ...healthyNodes.flatMap(({ name, partsNotReady }) =>
      partsNotReady.map((part) => `${part.name} on node ${name}: ${part.why}`),
    ),
    ...nodes.flatMap(({ name, lastError }) =>
      lastError === undefined ? [] : [`node ${name}: ${lastError}`],
    ),
    ...nodes.flatMap(({ name, expiry }) =>
      expiry === undefined || expiry.notAfterMs > nowMs
        ? []
        : [`certificate ${expiry.certificate} of node ${name} ${formatExpiry(expiry.notAfterMs, nowMs)}`],
    ),
    ...(kubernetes?.nodes ?? [])
      .filter(({ ready }) => !ready)
      .map(({ name, why }) => `kubelet on node ${name}: ${why}`),
    ...(kubernetes?.silentServer === undefined
      ? []
      : [
          `API server ${kubernetes.silentServer} of the kubeconfig does not respond: run \`cluster kubeconfig --server ${kubernetes.server}\` to use kubectl`,
        ]),
    ...(kubernetes?.pods.notReady ?? []).map((name) => `pod ${name} is not ready`),
  ];
}

/** Members that do not answer, on nodes that still count as healthy. */
function silentMembers(
  title: string,
  { silentVoters = [] }: EtcdPart,
  nodes: readonly NodeView[],
): readonly string[] {
  return silentVoters.flatMap((id) => {
    const node = nodes.find((each) => each.id === id);
    if (node !== undefined && node.health !== 'healthy') return [];
    // The agent of the node has said more about it.
    if (node?.machine?.services.some(({ name }) => name === title) === true) return [];
    return [`the ${title} member of node ${node?.name ?? (id || '<not started>')} does not answer`];
  });
}

/** Shown first, because a full etcd makes other parts fail, and nothing can be changed while it is full. */
function fullEtcd(title: string): string {
  return `${title} is full and refuses every write: run \`cluster recover space\` as root on a control plane`;
}

function corruptEtcd(title: string): string {
  return `${title} has the alarm CORRUPT and refuses every read and write: run \`cluster doctor\``;
}

function problemsOfEtcd(title: string, etcd: EtcdPart): readonly string[] {
  return [
    ...(etcd.hasLeader
      ? []
      : [`${title} has no leader: it accepts no writes until enough voters are available`]),
    ...(!etcd.isFull && etcd.quotaBytes > 0 && etcd.dbSizeBytes > 0.8 * etcd.quotaBytes
      ? [`${title} uses more than 80% of its quota`]
      : []),
  ];
}

/** A line of the summary: its label and its text. */
export type StatusLine = readonly [label: string, text: string];

/** The summary of what the curator reported, or why it was not reached. */
export function curatorLines(curator: Part<CuratorPart>, nowMs: number): readonly StatusLine[] {
  if (!curator.ok) {
    const lost = 'LOST: too few etcd members respond; see `cluster help recover`';
    return [
      ...(isQuorumLost(curator.codes) ? [['quorum', lost] as const] : []),
      ['curator', `not reached: ${curator.error}`],
    ];
  }
  const { etcd, kubernetesEtcd, createdMs, quorum, pendingJoins = 0, keys, nodes } = curator.value;
  return [
    ['created', `${formatDuration(nowMs - createdMs)} ago`],
    ['state etcd', describeEtcd(etcd)],
    ...(kubernetesEtcd === undefined
      ? []
      : [['kube etcd', describeEtcd(kubernetesEtcd, 'at most ')] as const]),
    ['quorum', describeQuorum(quorum)],
    ...(pendingJoins === 0
      ? []
      : [['joins', `${counted(pendingJoins, 'machine')} pending: cluster node ls --joins`] as const]),
    ...(keys === undefined || keys.isDone
      ? []
      : [['key rotation', describeRotationPhase(keys, nowMs)] as const]),
    ...disksLine(nodes),
    ...expiryLine(nodes, nowMs),
  ];
}

/** The summary of what the Kubernetes API reported, or why it was not reached. */
export function kubernetesLine(kubernetes: Part<KubernetesPart>): StatusLine {
  if (!kubernetes.ok) return ['kubernetes', `not reached: ${kubernetes.error}`];
  const { server, pods } = kubernetes.value;
  return ['kubernetes', `${server}, ${pods.total - pods.notReady.length} of ${pods.total} pods ready`];
}

/**
 * The charts in the cluster: "hello, web/shop (failed)". A chart is shown with its namespace if another chart has the
 * same name, and with its status unless it is deployed.
 */
export function chartsLines(kubernetes: Part<KubernetesPart>): readonly StatusLine[] {
  const charts = kubernetes.ok ? kubernetes.value.charts : undefined;
  if (charts === undefined) return [];
  const textOf = ({ namespace, name, status }: HelmRelease): string => {
    const isUnique = charts.filter((each) => each.name === name).length === 1;
    const shown = printable(isUnique ? name : `${namespace}/${name}`);
    return status === 'deployed' ? shown : `${shown} (${printable(status)})`;
  };
  return [['charts', charts.map(textOf).join(', ') || '<none>']];
}

/** A curator that responds, but whose etcd does not, has lost the etcd quorum. */
function isQuorumLost(codes: readonly string[]): boolean {
  return codes.some((code) => code.startsWith('etcd-'));
}

/** Shown also when nothing is wrong: a person who gets hold of a disk in the clear reads the keys of the cluster. */
function disksLine(nodes: readonly NodeView[]): readonly StatusLine[] {
  const known = nodes.flatMap((node) => {
    const disk = describeDisk(node);
    return disk === undefined ? [] : [{ name: node.name, isEncrypted: disk === 'encrypted' }];
  });
  if (known.length === 0) return [];
  const clear = known.filter(({ isEncrypted }) => !isEncrypted);
  if (clear.length === 0) return [['disks', `encrypted on ${counted(known.length, 'node')}`]];
  const names = clear.slice(0, MAX_NAMES).map(({ name }) => name);
  const more = clear.length > MAX_NAMES ? ` and ${clear.length - MAX_NAMES} more` : '';
  const of = `${clear.length} of ${counted(known.length, 'node')}`;
  return [['disks', `in the clear on ${of}: ${names.join(', ')}${more}`]];
}

function expiryLine(nodes: readonly NodeView[], nowMs: number): readonly StatusLine[] {
  const [first] = nodes
    .flatMap(({ name, expiry }) => (expiry === undefined ? [] : [{ name, ...expiry }]))
    .sort((a, b) => a.notAfterMs - b.notAfterMs);
  if (first === undefined) return [];
  const { certificate, name, notAfterMs } = first;
  // Agents renew the certificates that nodes have; CAs last as long as the cluster.
  const renewal = notAfterMs > nowMs && !/\bca\b/.test(certificate) ? '; its agent renews it before' : '';
  return [
    ['next certificate expiry', `${certificate} of ${name} ${formatExpiry(notAfterMs, nowMs)}${renewal}`],
  ];
}

/** @param about "at most " for the size of the Kubernetes etcd, which agents round up so that they do not report each change of it */
function describeEtcd(
  { members, learners, hasLeader, dbSizeBytes, quotaBytes }: EtcdPart,
  about = '',
): string {
  const learning = learners === 0 ? '' : ` and ${counted(learners, 'learner')}`;
  const quota = `${about}${formatBytes(dbSizeBytes)} of ${formatBytes(quotaBytes)}`;
  return `${counted(members, 'member')}${learning}, ${hasLeader ? 'has a leader' : 'no leader'}, ${quota}`;
}

function describeQuorum({ voters, healthy, needed, spare }: QuorumPart): string {
  const tolerated = spare === 0 ? 'no failures' : counted(spare, 'failure');
  const verdict = healthy < needed ? 'quorum lost' : `tolerates ${tolerated}`;
  return `${needed} of ${counted(voters, 'voter')} needed, ${healthy} healthy; ${verdict}`;
}
