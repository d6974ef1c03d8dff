import { NodeHealth, NodeRole, NodeState, type Node } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { formatAge, formatTable } from '../host/index.ts';
import { printable } from './printable.ts';

const NONE = '-';

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
  /** The certificate that runs out first, as far as the node says. */
  readonly expiry: { readonly certificate: string; readonly notAfterMs: number } | undefined;
  /** Last errors of what runs on it. */
  readonly troubles: readonly string[];
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

/** Wire → view. Texts are the nodes' own and made safe to print. */
export function nodeViewFrom(node: Node): NodeView {
  const { status } = node;
  const troubles = (status?.runnables ?? []).flatMap(({ path, lastError }) =>
    lastError === undefined ? [] : [printable(`${path}: ${lastError.code} ${lastError.message}`)],
  );
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
    expiry: firstExpiry(node),
    troubles,
  };
}

function firstExpiry({ status }: Node): NodeView['expiry'] {
  const [first] = (status?.certificates ?? [])
    .map(({ name, notAfterMs }) => ({ certificate: printable(name), notAfterMs: Number(notAfterMs) }))
    .sort((a, b) => a.notAfterMs - b.notAfterMs);
  return first;
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
    formatAge(nowMs - node.createdMs),
  ]);
  return formatTable([...header, 'AGE'], rows);
}

function expiryText({ expiry }: NodeView, nowMs: number): string {
  if (expiry === undefined) return NONE;
  return expiry.notAfterMs > nowMs ? formatAge(expiry.notAfterMs - nowMs) : 'run out';
}

function kubeletText(ready: boolean | undefined): string {
  if (ready === undefined) return NONE;
  return ready ? 'Ready' : 'NotReady';
}
