import { formatDuration } from '../../../internal/clock/index.ts';
import {
  NodeHealth,
  NodeRole,
  NodeState,
  type Node,
} from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { formatTable } from '../../host/index.ts';
import { printable } from '../../../internal/printable/index.ts';

const NONE = '-';

export interface CertificateView {
  readonly name: string;
  readonly notAfterMs: number;
}

/** A node as people and programs see it; plain JSON values. */
export interface NodeView {
  readonly id: string;
  readonly name: string;
  readonly roles: readonly string[];
  readonly state: string;
  readonly health: string;
  readonly address: string;
  readonly agentVersion: string;
  readonly kubernetesVersion: string;
  readonly createdMs: number;
  readonly lastError: string | undefined;
  /** All that the node says it has. */
  readonly certificates: readonly CertificateView[];
  /** The certificate that runs out first, as far as the node says. */
  readonly expiry: { readonly certificate: string; readonly notAfterMs: number } | undefined;
  /** Last errors of what runs on it. */
  readonly troubles: readonly string[];
  /** The parts of its Kubernetes control plane that are not ready, each with its reason. */
  readonly partsNotReady: readonly { readonly name: string; readonly why: string }[];
}

const STATES: Readonly<Record<NodeState, string>> = {
  [NodeState.UNSPECIFIED]: 'unknown',
  [NodeState.NEW]: 'new',
  [NodeState.STANDBY]: 'standby',
  [NodeState.UP]: 'up',
  [NodeState.DECOMMISSIONED]: 'decommissioned',
};
const HEALTHS: Readonly<Record<NodeHealth, string>> = {
  [NodeHealth.UNSPECIFIED]: 'unknown',
  [NodeHealth.UNKNOWN]: 'unknown',
  [NodeHealth.HEALTHY]: 'healthy',
  [NodeHealth.TIMEOUT]: 'silent',
};
const ROLES: Readonly<Record<NodeRole, string>> = {
  [NodeRole.UNSPECIFIED]: 'unknown',
  [NodeRole.CONSENSUS_MEMBER]: 'consensus',
  [NodeRole.KUBERNETES_CONTROLLER]: 'controller',
  [NodeRole.KUBERNETES_WORKER]: 'worker',
};

/** By name, n2 before n10: curators list them by their ids. */
export function nodeViewsFrom(nodes: readonly Node[]): readonly NodeView[] {
  return nodes.map(nodeViewFrom).toSorted((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }));
}

/** Wire → view. Texts are the nodes' own and made safe to print. */
export function nodeViewFrom(node: Node): NodeView {
  const { status } = node;
  const troubles = (status?.runnables ?? []).flatMap(({ path, lastError }) =>
    lastError === undefined ? [] : [printable(`${path}: ${lastError.code} ${lastError.message}`)],
  );
  const certificates = (status?.certificates ?? []).map(({ name, notAfterMs }) => ({
    name: printable(name),
    notAfterMs: Number(notAfterMs),
  }));
  return {
    id: printable(node.nodeId),
    name: printable(node.name),
    roles: node.roles.map((role) => ROLES[role]),
    state: STATES[node.state],
    health: HEALTHS[node.health],
    address: printable(status?.address ?? ''),
    agentVersion: printable(status?.agentVersion ?? ''),
    kubernetesVersion: printable(status?.kubernetesVersion ?? ''),
    createdMs: Number(node.createdMs),
    lastError: status?.lastError && printable(`${status.lastError.code}: ${status.lastError.message}`),
    certificates,
    expiry: firstExpiry(certificates),
    troubles,
    partsNotReady: (status?.controlPlane ?? [])
      .filter(({ ready }) => !ready)
      .map(({ name, why }) => ({ name: printable(name), why: printable(why) })),
  };
}

function firstExpiry(certificates: readonly CertificateView[]): NodeView['expiry'] {
  const [first] = certificates.toSorted((a, b) => a.notAfterMs - b.notAfterMs);
  return first && { certificate: first.name, notAfterMs: first.notAfterMs };
}

/** kubectl's manners: name first, age last, one row per object. `ready` is what the kubelet says, where it was asked. */
export function renderNodes(
  nodes: readonly NodeView[],
  options: { readonly nowMs: number; readonly wide: boolean; readonly ready?: ReadonlyMap<string, boolean> },
): string {
  const { wide, ready, nowMs } = options;
  const header = ['NAME', 'ROLES', 'STATE', 'HEALTH'];
  if (ready !== undefined) header.push('KUBELET');
  header.push('ADDRESS', 'VERSION');
  if (wide) header.push('EXPIRES', 'AGENT', 'ID', 'LAST ERROR');
  const rows = nodes.map((node) => [
    node.name,
    node.roles.join(',') || NONE,
    node.state,
    node.health,
    ...(ready === undefined ? [] : [kubeletText(ready.get(node.name))]),
    node.address || NONE,
    node.kubernetesVersion || NONE,
    ...(wide ? [expiryText(node, nowMs), node.agentVersion || NONE, node.id, node.lastError ?? NONE] : []),
    formatDuration(nowMs - node.createdMs),
  ]);
  return formatTable([...header, 'AGE'], rows);
}

/** Every certificate of every node, for each node the first to run out first. */
export function renderCertificates(nodes: readonly NodeView[], nowMs: number): string {
  const rows = nodes.flatMap(({ name, certificates }) =>
    certificates
      .toSorted((a, b) => a.notAfterMs - b.notAfterMs)
      .map((each) => [name, each.name, leftText(each.notAfterMs, nowMs)]),
  );
  return formatTable(['NODE', 'CERTIFICATE', 'EXPIRES'], rows);
}

function expiryText({ expiry }: NodeView, nowMs: number): string {
  return expiry === undefined ? NONE : leftText(expiry.notAfterMs, nowMs);
}

function leftText(notAfterMs: number, nowMs: number): string {
  return notAfterMs > nowMs ? formatDuration(notAfterMs - nowMs) : 'run out';
}

function kubeletText(ready: boolean | undefined): string {
  if (ready === undefined) return NONE;
  return ready ? 'Ready' : 'NotReady';
}
