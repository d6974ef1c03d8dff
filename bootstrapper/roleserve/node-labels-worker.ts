import { combine, EventValue } from '../../internal/event/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import {
  formatTaint,
  isReservedLabel,
  isReservedTaint,
  isTaintEffect,
  sortedTaints,
  type Taint,
} from '../../internal/role/index.ts';
import { launcher, type Runnable, type Scope } from '../../internal/supervisor/index.ts';
import { NodeState, type Node } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { Curators } from '../curatorclient/index.ts';
import {
  declareLabels,
  declareTaints,
  declaresOther,
  isOtherTaints,
  listDeclaredLabels,
  listDeclaredTaints,
  type NodeTaints,
} from '../kubernetes/index.ts';
import { spreadDnsOnce } from './dns-spread.ts';
import { nextWithin } from './next-within.ts';
import type { RoleValues } from './role-values.ts';
import { reportWorking } from './role-fetch-worker.ts';
import { planStrayTaints } from './stray-taints-worker.ts';

/** Time until the next look for nodes that have not registered with Kubernetes yet. */
const UNREGISTERED_MS = 15_000;
/** Time after which a label or taint that somebody has changed in Kubernetes, or a node that registered again, is noticed. */
const RECHECK_MS = 600_000;

/**
 * How often a Node object is read again because it has changed meanwhile. Other control planes copy the same taints at
 * the same time.
 */
const MAX_CONFLICTS = 5;

/** The labels and taints on record. */
interface DeclaredNode {
  readonly labels: Readonly<Record<string, string>>;
  readonly taints: readonly Taint[];
}
/** The labels and taints on record, by node name. */
type DeclaredByNode = ReadonlyMap<string, DeclaredNode>;
/**
 * Copies the labels and taints on record. Resolves to the nodes that have labels or taints on record, but are not
 * registered in Kubernetes yet.
 */
type CopyOnce = (
  options: NodeLabelsOptions,
  wanted: DeclaredByNode,
  scope: Scope,
) => Promise<readonly string[]>;

/** Inputs and ports (injected dependencies) of the worker. */
export interface NodeLabelsOptions extends Pick<SystemPorts, 'clock' | 'commands'> {
  readonly reads: Pick<RoleValues, 'clusterMembership' | 'kubernetesStatus'>;
  readonly curators: Curators;
}

/**
 * Copies the labels and taints on record (`cluster node label` and `taint`, the inventory, `node approve`) to the Node objects of
 * Kubernetes. Runs on every Kubernetes control plane: kubelets may not set restricted labels, and a copy that is already there
 * changes nothing. Also distributes the pods of CoreDNS when a second node has joined.
 */
export function nodeLabelsWorker(options: NodeLabelsOptions): Runnable {
  const { clusterMembership, kubernetesStatus } = options.reads;
  return launcher({
    input: combine({ clusterMembership, kubernetesStatus }),
    plan: planStrayTaints,
    start: async (scope) => {
      const wanted = new EventValue<DeclaredByNode>();
      scope.run('watch', (child) => watchLabels(options, wanted, child));
      scope.run('apply', (child) => copyRecords(options, wanted, copyLabels, child));
      scope.run('taints', (child) => copyRecords(options, wanted, copyTaints, child));
      scope.run('dns', (child) => spreadDnsOnce(options, { nodes: wanted }, child));
    },
  });
}

/** Follows the records of all nodes. */
async function watchLabels(
  { curators }: NodeLabelsOptions,
  wanted: EventValue<DeclaredByNode>,
  scope: Scope,
): Promise<void> {
  let known: string | undefined;
  const onResponse = reportWorking(scope);
  scope.waiting('first list of nodes from a curator');
  await curators.use(
    async ({ client, endpoint }, signal) => {
      const nodes = new Map<string, Node>();
      for await (const message of client.watchNodes({}, { signal })) {
        if (message.relist) nodes.clear();
        for (const node of message.nodes) nodes.set(node.nodeId, node);
        for (const nodeId of message.deletedNodeIds) nodes.delete(nodeId);
        if (message.relist && !message.caughtUp) continue;
        onResponse();
        const declared = declaredOf(nodes.values());
        const text = JSON.stringify([...declared]);
        if (text !== known) wanted.set(declared);
        known = text;
      }
      throw new Error(`curator ${endpoint} ended the watch`);
    },
    { signal: scope.signal },
  );
}

/**
 * Labels of Kubernetes itself are left out. Operators cannot set them on record, so such a record is not from this
 * cluster's programs.
 */
function declaredOf(nodes: Iterable<Node>): DeclaredByNode {
  const members = [...nodes].filter(({ state }) => state === NodeState.UP);
  const own = members.map(({ name, labels, taints }): [string, DeclaredNode] => [
    name,
    {
      labels: Object.fromEntries(
        Object.entries(labels)
          .filter(([key]) => !isReservedLabel(key))
          .sort(([a], [b]) => (a < b ? -1 : 1)),
      ),
      taints: sortedTaints(taintsFromWire(taints)),
    },
  ]);
  return new Map(own.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Taints of Kubernetes itself are left out, like its labels. */
function taintsFromWire(taints: Node['taints']): readonly Taint[] {
  return taints.flatMap(({ key, value, effect }) =>
    isTaintEffect(effect) && !isReservedTaint(key) ? [{ key, value, effect }] : [],
  );
}

async function copyRecords(
  options: NodeLabelsOptions,
  wanted: EventValue<DeclaredByNode>,
  copyOnce: CopyOnce,
  scope: Scope,
): Promise<void> {
  const onCopied = reportWorking(scope);
  const watcher = wanted.watch();
  scope.waiting('the records of the nodes');
  for (let known = await watcher.next(scope.signal); ;) {
    const unregistered = await copyOnce(options, known, scope);
    onCopied();
    scope.waiting(
      unregistered.length === 0
        ? 'changes of the records'
        : `kubelet of ${unregistered.join(', ')} to register`,
    );
    const pauseMs = unregistered.length === 0 ? RECHECK_MS : UNREGISTERED_MS;
    known = (await nextWithin(watcher, pauseMs, options.clock, scope.signal)) ?? known;
  }
}

async function copyLabels(
  { commands }: NodeLabelsOptions,
  wanted: DeclaredByNode,
  { signal, log }: Scope,
): Promise<readonly string[]> {
  const nodes = await listDeclaredLabels(commands, signal);
  const failures: unknown[] = [];
  for (const node of nodes) {
    const { labels } = wanted.get(node.name) ?? NOTHING;
    if (!declaresOther(node, labels)) continue;
    try {
      await declareLabels(commands, node, labels, signal);
      log.info('copied the labels of a node to Kubernetes', { node: node.name, labels: Object.keys(labels) });
    } catch (error) {
      signal.throwIfAborted();
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
  return unregisteredIn(wanted, nodes, ({ labels }) => Object.keys(labels).length > 0);
}

async function copyTaints(
  { commands }: NodeLabelsOptions,
  wanted: DeclaredByNode,
  { signal, log }: Scope,
): Promise<readonly string[]> {
  const failures: unknown[] = [];
  const changeOne = async (node: NodeTaints): Promise<boolean> => {
    const { taints } = wanted.get(node.name) ?? NOTHING;
    if (!isOtherTaints(node, taints)) return true;
    try {
      if (!(await declareTaints(commands, node, taints, signal))) return false;
      log.info('copied the taints of a node to Kubernetes', {
        node: node.name,
        taints: taints.map(formatTaint),
      });
    } catch (error) {
      signal.throwIfAborted();
      failures.push(error);
    }
    return true;
  };
  for (let attempt = 1; ; attempt++) {
    const nodes = await listDeclaredTaints(commands, signal);
    const changed: string[] = [];
    for (const node of nodes) if (!(await changeOne(node))) changed.push(node.name);
    if (failures.length > 0) throw failures[0];
    if (changed.length === 0) return unregisteredIn(wanted, nodes, ({ taints }) => taints.length > 0);
    if (attempt === MAX_CONFLICTS)
      throw new Error(`copying taints: the Node objects of ${changed.join(', ')} change all the time`);
  }
}

const NOTHING: DeclaredNode = { labels: {}, taints: [] };

function unregisteredIn(
  wanted: DeclaredByNode,
  nodes: readonly { readonly name: string }[],
  hasAny: (node: DeclaredNode) => boolean,
): readonly string[] {
  const registered = new Set(nodes.map(({ name }) => name));
  return [...wanted].flatMap(([name, node]) => (hasAny(node) && !registered.has(name) ? [name] : []));
}
