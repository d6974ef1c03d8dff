import { formatDuration } from '../../../internal/clock/index.ts';
import { quorumOf } from '../../../internal/role/index.ts';
import { NodeHealth, type EtcdStatus, type Node } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { formatBytes } from '../../host/index.ts';
import { keysLine, type KeysView } from './keys-view.ts';
import type { NodeView } from './node-view.ts';

/** A part of the picture: what it says, or why it could not be had. */
export type Part<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: string; readonly codes: readonly string[] };

export interface EtcdPart {
  readonly dbSizeBytes: number;
  readonly quotaBytes: number;
  readonly hasLeader: boolean;
  readonly members: number;
  readonly learners: number;
}

/** How many voters there are, must agree, are well, and may still be lost. */
export interface QuorumPart {
  readonly voters: number;
  readonly needed: number;
  readonly healthy: number;
  readonly spare: number;
}

export interface CuratorPart {
  readonly name: string;
  readonly createdMs: number;
  /** The state etcd. */
  readonly etcd: EtcdPart;
  /** As the control planes tell of it; undefined where none does. */
  readonly kubernetesEtcd: EtcdPart | undefined;
  readonly quorum: QuorumPart;
  /** undefined where the caller may not know. */
  readonly pendingJoins: number | undefined;
  /** undefined from a curator that knows nothing of replacing keys. */
  readonly keys?: KeysView | undefined;
  readonly nodes: readonly NodeView[];
}

export interface KubernetesPart {
  readonly server: string;
  readonly nodes: readonly { readonly name: string; readonly ready: boolean; readonly why: string }[];
  readonly pods: { readonly total: number; readonly notReady: readonly string[] };
}

/**
 * The Kubernetes etcd as the control planes that beat see it: no curator has a certificate for it. One that sees a
 * leader is believed before one that does not, which may be cut off.
 */
export function kubernetesEtcdOf(nodes: readonly Node[]): EtcdStatus | undefined {
  const seen = nodes.flatMap(({ health, status }) =>
    health === NodeHealth.HEALTHY && status?.kubernetesEtcd !== undefined ? [status.kubernetesEtcd] : [],
  );
  return seen.find(({ hasLeader }) => hasLeader) ?? seen[0];
}

export function etcdFrom(etcd: EtcdStatus | undefined): EtcdPart {
  const members = etcd?.members ?? [];
  return {
    dbSizeBytes: Number(etcd?.dbSizeBytes ?? 0n),
    quotaBytes: Number(etcd?.quotaBytes ?? 0n),
    hasLeader: etcd?.hasLeader ?? false,
    members: members.filter(({ isLearner }) => !isLearner).length,
    learners: members.filter(({ isLearner }) => isLearner).length,
  };
}

/** A voter is as well as its node: etcd itself does not say of others whether they answer. */
export function quorumFrom(etcd: EtcdPart, nodes: readonly NodeView[]): QuorumPart {
  const voters = etcd.members;
  const needed = quorumOf(voters);
  const well = nodes.filter(
    ({ roles, health }) => roles.includes('consensus') && health === 'healthy',
  ).length;
  const healthy = Math.min(well, voters);
  return { voters, needed, healthy, spare: Math.max(0, healthy - needed) };
}

/** Each with the name of what it is about. */
export function problemsOf(
  curator: CuratorPart,
  kubernetes: KubernetesPart | undefined,
  nowMs: number,
): readonly string[] {
  const { etcd, kubernetesEtcd, nodes, quorum } = curator;
  return [
    ...troublesOfEtcd('the state etcd', etcd),
    ...(kubernetesEtcd === undefined ? [] : troublesOfEtcd('the Kubernetes etcd', kubernetesEtcd)),
    ...(quorum.healthy < quorum.voters && quorum.spare === 0
      ? [
          `quorum hangs on each of the ${quorum.healthy} voters left: with one more lost, nothing can be decided`,
        ]
      : []),
    ...nodes
      .filter(({ health }) => health !== 'healthy')
      .map(({ name, health }) => `node ${name} is ${health}`),
    // What a silent node said last is no news.
    ...nodes
      .filter(({ health }) => health === 'healthy')
      .flatMap(({ name, partsNotReady }) =>
        partsNotReady.map((part) => `${part.name} of ${name}: ${part.why}`),
      ),
    ...nodes.flatMap(({ name, lastError }) =>
      lastError === undefined ? [] : [`node ${name}: ${lastError}`],
    ),
    ...nodes.flatMap(({ name, expiry }) =>
      expiry === undefined || expiry.notAfterMs > nowMs
        ? []
        : [`certificate ${expiry.certificate} of ${name} has run out`],
    ),
    ...(kubernetes?.nodes ?? [])
      .filter(({ ready }) => !ready)
      .map(({ name, why }) => `kubelet of ${name}: ${why}`),
    ...(kubernetes?.pods.notReady ?? []).map((name) => `pod ${name} is not ready`),
  ];
}

function troublesOfEtcd(title: string, etcd: EtcdPart): readonly string[] {
  return [
    ...(etcd.hasLeader ? [] : [`${title} has no leader: it decides nothing until enough voters are back`]),
    ...(etcd.quotaBytes > 0 && etcd.dbSizeBytes > 0.8 * etcd.quotaBytes
      ? [`${title} has used more than 80 % of its quota`]
      : []),
  ];
}

function describeEtcd({ members, learners, hasLeader, dbSizeBytes, quotaBytes }: EtcdPart): string {
  const learning = learners === 0 ? '' : ` and ${learners} learning`;
  const quota = `${formatBytes(dbSizeBytes)} of ${formatBytes(quotaBytes)}`;
  return `${counted(members, 'member')}${learning}, ${hasLeader ? 'has a leader' : 'no leader'}, ${quota}`;
}

export function renderCurator(curator: Part<CuratorPart>, nowMs: number): readonly string[] {
  if (!curator.ok)
    return [
      ...(isQuorumLost(curator.codes)
        ? [
            'quorum      LOST: curators answer, but too few etcd voters do. Bring control-plane nodes back, or see `cluster help recover`.',
          ]
        : []),
      `curator     not reached: ${curator.error}`,
    ];
  const { etcd, kubernetesEtcd, createdMs, quorum, pendingJoins = 0 } = curator.value;
  return [
    `created     ${formatDuration(nowMs - createdMs)} ago`,
    `state etcd  ${describeEtcd(etcd)}`,
    ...(kubernetesEtcd === undefined ? [] : [`kube etcd   ${describeEtcd(kubernetesEtcd)}`]),
    `quorum      ${quorum.needed} of ${counted(quorum.voters, 'voter')} needed, ${quorum.healthy} healthy: ${spareText(quorum)}`,
    ...(pendingJoins === 0
      ? []
      : [`joins       ${counted(pendingJoins, 'machine')} to be decided about: cluster node ls --joins`]),
    ...keysLine(curator.value.keys, nowMs),
    ...expiryLine(curator.value.nodes, nowMs),
  ];
}

export function renderKubernetes(kubernetes: Part<KubernetesPart>): readonly string[] {
  if (!kubernetes.ok) return [`kubernetes  not reached: ${kubernetes.error}`];
  const { server, pods } = kubernetes.value;
  return [`kubernetes  ${server}, ${pods.total - pods.notReady.length} of ${pods.total} pods ready`];
}

/** A curator that answers with its etcd's silence has lost the majority, not its way. */
export function isQuorumLost(codes: readonly string[]): boolean {
  return codes.some((code) => code.startsWith('etcd-'));
}

function expiryLine(nodes: readonly NodeView[], nowMs: number): readonly string[] {
  const [first] = nodes
    .flatMap(({ name, expiry }) => (expiry === undefined ? [] : [{ name, ...expiry }]))
    .sort((a, b) => a.notAfterMs - b.notAfterMs);
  if (first === undefined) return [];
  const left = first.notAfterMs - nowMs;
  const when = left > 0 ? `in ${formatDuration(left)}` : 'has run out';
  return [`expiry      ${first.certificate} of ${first.name} first, ${when}`];
}

function spareText({ healthy, needed, spare }: QuorumPart): string {
  if (healthy < needed) return 'too few';
  return spare === 0 ? 'none may be lost' : `${spare} may be lost`;
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}
