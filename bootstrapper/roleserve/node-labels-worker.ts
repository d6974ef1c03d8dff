import { childSignal } from '../../internal/cleanup/index.ts';
import { combine, EventValue, type Watcher } from '../../internal/event/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import { isReservedLabel } from '../../internal/role/index.ts';
import { launcher, type Runnable, type Scope } from '../../internal/supervisor/index.ts';
import { NodeState, type Node } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { Curators } from '../curatorclient/index.ts';
import { declareLabels, declaresOther, listDeclaredLabels } from '../kubernetes/index.ts';
import type { RoleValues } from './role-values.ts';
import { reportWorking } from './role-fetch-worker.ts';
import { planStrayTaints } from './stray-taints-worker.ts';

/** Time until the next look for nodes that have not registered with Kubernetes yet. */
const UNREGISTERED_MS = 15_000;
/** Time after which a label that somebody has changed in Kubernetes, or a node that registered again, is noticed. */
const RECHECK_MS = 600_000;

/** The labels on record, by node name. */
type LabelsByNode = ReadonlyMap<string, Readonly<Record<string, string>>>;

/** Inputs and ports (injected dependencies) of the worker. */
export interface NodeLabelsOptions extends Pick<SystemPorts, 'clock' | 'commands'> {
  readonly reads: Pick<RoleValues, 'clusterMembership' | 'kubernetesStatus'>;
  readonly curators: Curators;
}

/**
 * Copies the labels on record (`cluster node label`, the inventory, `node approve --label`) to the Node
 * objects of Kubernetes. Runs on every Kubernetes control plane: kubelets may not set restricted labels, and a
 * copy that is already there changes nothing.
 */
export function nodeLabelsWorker(options: NodeLabelsOptions): Runnable {
  const { clusterMembership, kubernetesStatus } = options.reads;
  return launcher({
    input: combine({ clusterMembership, kubernetesStatus }),
    plan: planStrayTaints,
    start: async (scope) => {
      const wanted = new EventValue<LabelsByNode>();
      scope.run('watch', (child) => watchLabels(options, wanted, child));
      scope.run('apply', (child) => applyLabels(options, wanted, child));
    },
  });
}

/** Follows the records of all nodes. */
async function watchLabels(
  { curators }: NodeLabelsOptions,
  wanted: EventValue<LabelsByNode>,
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
        const labels = labelsOf(nodes.values());
        const text = JSON.stringify([...labels]);
        if (text !== known) wanted.set(labels);
        known = text;
      }
      throw new Error(`curator ${endpoint} ended the watch`);
    },
    { signal: scope.signal },
  );
}

/** Labels of Kubernetes itself are left out: nobody may set them here, so such a record is not ours. */
function labelsOf(nodes: Iterable<Node>): LabelsByNode {
  const members = [...nodes].filter(({ state }) => state === NodeState.UP);
  const own = members.map(({ name, labels }): [string, Record<string, string>] => [
    name,
    Object.fromEntries(
      Object.entries(labels)
        .filter(([key]) => !isReservedLabel(key))
        .sort(([a], [b]) => (a < b ? -1 : 1)),
    ),
  ]);
  return new Map(own.sort(([a], [b]) => (a < b ? -1 : 1)));
}

async function applyLabels(
  options: NodeLabelsOptions,
  wanted: EventValue<LabelsByNode>,
  scope: Scope,
): Promise<void> {
  const onApplied = reportWorking(scope);
  const watcher = wanted.watch();
  scope.waiting('the labels on record');
  for (let known = await watcher.next(scope.signal); ;) {
    const unregistered = await applyOnce(options, known, scope);
    onApplied();
    scope.waiting(
      unregistered.length === 0 ? 'changes of labels' : `kubelet of ${unregistered.join(', ')} to register`,
    );
    const pauseMs = unregistered.length === 0 ? RECHECK_MS : UNREGISTERED_MS;
    known = (await nextWithin(watcher, pauseMs, options.clock, scope.signal)) ?? known;
  }
}

/** Resolves to the nodes with labels that Kubernetes does not know yet. */
async function applyOnce(
  { commands }: NodeLabelsOptions,
  wanted: LabelsByNode,
  { signal, log }: Scope,
): Promise<readonly string[]> {
  const nodes = await listDeclaredLabels(commands, signal);
  const failures: unknown[] = [];
  for (const node of nodes) {
    const labels = wanted.get(node.name) ?? {};
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
  const registered = new Set(nodes.map(({ name }) => name));
  return [...wanted].flatMap(([name, labels]) =>
    Object.keys(labels).length > 0 && !registered.has(name) ? [name] : [],
  );
}

/** The next value, or undefined when there is none within this time. */
async function nextWithin<T>(
  watcher: Watcher<T>,
  withinMs: number,
  clock: Clock,
  signal: AbortSignal,
): Promise<T | undefined> {
  using either = childSignal(signal);
  const waits = [watcher.next(either.signal), clock.sleep(withinMs, either.signal)] as const;
  await Promise.race(waits).catch(() => undefined);
  either.abort();
  const [next] = await Promise.allSettled(waits);
  signal.throwIfAborted();
  return next.status === 'fulfilled' ? next.value : undefined;
}
