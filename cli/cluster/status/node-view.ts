import { formatDuration, formatExpiry } from '../../../internal/clock/index.ts';
import {
  NodeHealth,
  NodeRole,
  NodeState,
  Runnable_State,
  type LastError,
  type MachineHealth,
  type Node,
} from '../../../joinservice/curatorproto/gen/curator_pb.js';
import type { RoleName } from '../../../internal/role/index.ts';
import { formatTable, renderListing, type Listing } from '../../host/index.ts';
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
/** Roles by the names that commands take. A control plane has two roles in the records. */
const ROLES: Readonly<Record<NodeRole, RoleName | 'unknown'>> = {
  [NodeRole.UNSPECIFIED]: 'unknown',
  [NodeRole.CONSENSUS_MEMBER]: 'control-plane',
  [NodeRole.KUBERNETES_CONTROLLER]: 'control-plane',
  [NodeRole.KUBERNETES_WORKER]: 'worker',
};

const RECOVERED: ReadonlySet<Runnable_State> = new Set([Runnable_State.HEALTHY, Runnable_State.DONE]);

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
  const certificates = (status?.certificates ?? []).map(({ name, notAfterMs }) => ({
    name: printable(name),
    notAfterMs: Number(notAfterMs),
  }));
  const [first] = certificates.toSorted(byEnd);
  return {
    id: printable(node.nodeId),
    name: printable(node.name),
    roles: [...new Set(node.roles.map((role) => ROLES[role]))],
    state: STATES[node.state],
    health: HEALTHS[node.health],
    // Since when the node is silent, or longer; undefined from curators of an older version.
    silentSinceMs: Number(node.silentSinceMs) || undefined,
    address: printable(status?.address ?? ''),
    agentVersion: printable(status?.agentVersion ?? ''),
    kubernetesVersion: printable(status?.kubernetesVersion ?? ''),
    createdMs: Number(node.createdMs),
    labels: Object.fromEntries(
      Object.entries(node.labels).map(([key, value]) => [printable(key), printable(value)]),
    ),
    lastError: status?.lastError && errorText(status.lastError),
    certificates,
    // The certificate that expires first.
    expiry: first && { certificate: first.name, notAfterMs: first.notAfterMs },
    // Runnables whose last run failed and that have not recovered since.
    troubles: (status?.runnables ?? []).flatMap(({ path, state, lastError }) =>
      lastError === undefined || RECOVERED.has(state)
        ? []
        : [{ path: printable(path), error: errorText(lastError), failedMs: timeOf(lastError) }],
    ),
    partsNotReady: (status?.controlPlane ?? [])
      .filter(({ ready }) => !ready)
      .map(({ name, why }) => ({ name: printable(name), why: printable(why) })),
    // When the node found that its disk is an old copy.
    oldDiskMs: Number(status?.oldDiskMs ?? 0) || undefined,
    machine: status?.machine && machineFrom(status.machine),
    // Empty from agents of an older version.
    directories: (status?.dataDirectories ?? []).map(({ path, protection }) => ({
      path: printable(path),
      protection: printable(protection),
    })),
  };
}

/** What is wrong on the machine of a node; undefined from agents of an older version. */
function machineFrom({ services, problems, podNetwork, nameLookup }: MachineHealth) {
  return {
    services: services.map(({ name, why }) => ({ name: printable(name), why: printable(why) })),
    problems: problems.map(({ code, subject, cause, isWarning }) => ({
      ...{ code: printable(code), subject: printable(subject), cause: printable(cause) },
      isWarning,
    })),
    ...(podNetwork && {
      podNetwork: {
        address: printable(podNetwork.address),
        unreachable: podNetwork.unreachable.map((each) => printable(each)),
        ...(podNetwork.fullPackets && {
          fullPackets: {
            lost: podNetwork.fullPackets.lost.map((each) => printable(each)),
            judged: podNetwork.fullPackets.judged,
          },
        }),
        ...(podNetwork.roundTrips && {
          roundTrips: podNetwork.roundTrips.peers.map(({ address, milliseconds }) => ({
            address: printable(address),
            ms: milliseconds,
          })),
        }),
      },
    }),
    ...(nameLookup && { nameLookup: { failure: printable(nameLookup.failure) } }),
  };
}

/** When an error occurred; undefined from agents of older versions, which do not say it. */
export function timeOf(error: Pick<LastError, 'timeMs'> | undefined): number | undefined {
  return Number(error?.timeMs ?? 0) || undefined;
}

/** "CODE: MESSAGE". */
export function errorText({ code, message }: Pick<LastError, 'code' | 'message'>): string {
  return printable(code === '' ? message : `${code}: ${message}`);
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

/**
 * How the disk of a node is kept: "encrypted", "in the clear", or the directories that are in the clear beside encrypted
 * ones. undefined from agents of an older version.
 */
export function describeDisk({ directories }: Pick<NodeView, 'directories'>): string | undefined {
  const clear = directories.filter(({ protection }) => protection !== 'encrypted' && protection !== 'memory');
  if (directories.length === 0) return undefined;
  if (clear.length === 0) return 'encrypted';
  if (clear.length === directories.length) return 'in the clear';
  return `in the clear: ${clear.map(({ path }) => path).join(', ')}`;
}

/** What Kubernetes says about the kubelet of a node; `Unknown` when Kubernetes did not answer. */
export type KubeletState = 'Ready' | 'NotReady' | 'Unknown';

/** What Kubernetes knows of a node; undefined when it does not know the node, or was not asked. */
export interface KubernetesView {
  readonly kubelet?: KubeletState | undefined;
  /** Whether no further pods are placed on the node, for example because it was drained. */
  readonly isCordoned?: boolean | undefined;
}

/** A node with what Kubernetes knows of it. */
export type ListedNode = NodeView & KubernetesView;

/** The nodes as a list, with kubectl's column names. */
export function nodeListing(
  nodes: readonly ListedNode[],
  options: { readonly nowMs: number; readonly wide?: boolean },
): Listing<ListedNode> {
  const { wide = false, nowMs } = options;
  const wideColumn = (title: string, textOf: (node: ListedNode) => string) =>
    ({ title, textOf, isWide: true }) as const;
  return {
    data: { nodes },
    items: nodes,
    nameOf: ({ name }) => name,
    wide,
    columns: [
      { title: 'NAME', textOf: ({ name }) => name },
      { title: 'STATUS', textOf: nodeStatusText },
      { title: 'KUBELET', textOf: kubeletText },
      { title: 'ROLES', textOf: ({ roles }) => roles.join(',') || NONE },
      { title: 'AGE', textOf: ({ createdMs }) => formatDuration(nowMs - createdMs) },
      { title: 'VERSION', textOf: ({ kubernetesVersion }) => kubernetesVersion || NONE },
      { title: 'ADDRESS', textOf: ({ address }) => address || NONE },
      wideColumn('CERTIFICATES', (node) => expiryText(node, nowMs)),
      wideColumn('AGENT', ({ agentVersion }) => agentVersion || NONE),
      wideColumn('ID', ({ id }) => id),
      wideColumn('LABELS', ({ labels }) => labelsText(labels)),
      wideColumn('LAST ERROR', ({ lastError = NONE }) => lastError),
    ],
  };
}

/** The table of nodes as text, for use inside a larger text. */
export function renderNodes(...given: Parameters<typeof nodeListing>): string {
  return renderListing(nodeListing(...given), { format: 'table', headers: true });
}

/** Labels as `KEY=VALUE,…`. */
function labelsText(labels: Readonly<Record<string, string>>): string {
  const texts = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
  return texts.toSorted().join(',') || NONE;
}

/** Every certificate of every node; for each node the one that expires first comes first. */
export function renderCertificates(nodes: readonly NodeView[], nowMs: number): string {
  const rows = nodes.flatMap(({ name, certificates }) =>
    certificates.toSorted(byEnd).map((each) => [name, each.name, formatExpiry(each.notAfterMs, nowMs)]),
  );
  return formatTable(['NODE', 'CERTIFICATE', 'STATUS'], rows);
}

/** The status of a node, such as "Healthy", "Standby" or "Standby,NotResponding". The state is left out if it is up. */
export function nodeStatusText({ state, health }: NodeView): string {
  const parts = state === 'up' ? [health] : health === 'healthy' ? [state] : [state, health];
  return [...new Set(parts)].map((part) => STATUSES[part] ?? part).join(',');
}

/** As kubectl writes it: "Ready" or "Ready,SchedulingDisabled". */
function kubeletText({ kubelet, isCordoned = false }: KubernetesView): string {
  return isCordoned ? `${kubelet ?? NONE},SchedulingDisabled` : (kubelet ?? NONE);
}

function expiryText({ expiry }: NodeView, nowMs: number): string {
  return expiry === undefined ? NONE : formatExpiry(expiry.notAfterMs, nowMs);
}
