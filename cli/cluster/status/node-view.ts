import { formatDuration, formatExpiry } from '../../../internal/clock/index.ts';
import {
  NodeHealth,
  NodeRole,
  NodeState,
  type Node,
} from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { roleNames } from '../../../internal/role/index.ts';
import { formatTable } from '../../host/index.ts';
import { printable } from '../../../internal/printable/index.ts';

const NONE = '<none>';

/** A node as people and programs see it; plain JSON values. */
export type NodeView = Readonly<ReturnType<typeof nodeViewFrom>>;

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

/** Converts nodes, and sorts them by name: n2 before n10. */
export function nodeViewsFrom(nodes: readonly Node[]): readonly NodeView[] {
  return nodes.map(nodeViewFrom).toSorted((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }));
}

/**
 * Converts a node in a curator response to the form that commands show. Texts come from the nodes, so they
 * are made safe to print.
 */
export function nodeViewFrom(node: Node) {
  const { status } = node;
  const troubles = (status?.runnables ?? []).flatMap(({ path, lastError }) =>
    lastError === undefined ? [] : [printable(`${path}: ${lastError.code} ${lastError.message}`)],
  );
  const certificates = (status?.certificates ?? []).map(({ name, notAfterMs }) => ({
    name: printable(name),
    notAfterMs: Number(notAfterMs),
  }));
  const [first] = certificates.toSorted(byEnd);
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
    // The certificate that expires first.
    expiry: first && { certificate: first.name, notAfterMs: first.notAfterMs },
    troubles,
    partsNotReady: (status?.controlPlane ?? [])
      .filter(({ ready }) => !ready)
      .map(({ name, why }) => ({ name: printable(name), why: printable(why) })),
  };
}

function byEnd(a: { readonly notAfterMs: number }, b: { readonly notAfterMs: number }): number {
  return a.notAfterMs - b.notAfterMs;
}

/** Values of the column STATUS, as kubectl writes them. */
const STATUSES: Readonly<Record<string, string>> = {
  healthy: 'Healthy',
  silent: 'NotResponding',
  unknown: 'Unknown',
  new: 'New',
  standby: 'Standby',
  decommissioned: 'Decommissioned',
};

/** What Kubernetes says about the kubelet of a node; `Unknown` when Kubernetes did not answer. */
export type KubeletState = 'Ready' | 'NotReady' | 'Unknown';

/** A node and the state of its kubelet; undefined when Kubernetes does not know the node, or was not asked. */
export type ListedNode = NodeView & { readonly kubelet?: KubeletState | undefined };

/** The table of nodes, with kubectl's column names. */
export function renderNodes(
  nodes: readonly ListedNode[],
  options: { readonly nowMs: number; readonly wide?: boolean },
): string {
  const { wide = false, nowMs } = options;
  const header = ['NAME', 'STATUS', 'KUBELET', 'ROLES', 'AGE', 'VERSION', 'ADDRESS'];
  if (wide) header.push('CERTIFICATES', 'AGENT', 'ID', 'LAST ERROR');
  const rows = nodes.map((node) => [
    node.name,
    statusText(node),
    node.kubelet ?? NONE,
    roleNames(node.roles).join(',') || NONE,
    formatDuration(nowMs - node.createdMs),
    node.kubernetesVersion || NONE,
    node.address || NONE,
    ...(wide ? [expiryText(node, nowMs), node.agentVersion || NONE, node.id, node.lastError ?? NONE] : []),
  ]);
  return formatTable(header, rows);
}

/** Every certificate of every node; for each node the one that expires first comes first. */
export function renderCertificates(nodes: readonly NodeView[], nowMs: number): string {
  const rows = nodes.flatMap(({ name, certificates }) =>
    certificates.toSorted(byEnd).map((each) => [name, each.name, formatExpiry(each.notAfterMs, nowMs)]),
  );
  return formatTable(['NODE', 'CERTIFICATE', 'STATUS'], rows);
}

/** The column STATUS, such as "Healthy", "Standby" or "Standby,NotResponding". The state is left out if it is up. */
function statusText({ state, health }: NodeView): string {
  const parts = state === 'up' ? [health] : health === 'healthy' ? [state] : [state, health];
  return [...new Set(parts)].map((part) => STATUSES[part] ?? part).join(',');
}

function expiryText({ expiry }: NodeView, nowMs: number): string {
  return expiry === undefined ? NONE : formatExpiry(expiry.notAfterMs, nowMs);
}
