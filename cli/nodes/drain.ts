import {
  evictPod,
  KubeError,
  listPodsOn,
  readScheduling,
  setSchedulable,
  type KubeClient,
  type PodOnNode,
} from '../../internal/kube/index.ts';
import { counted } from '../../internal/printable/index.ts';
import { formatDuration } from '../../internal/clock/index.ts';
import type { CommandContext, StepProgress } from '../app/command.ts';
import { withKubernetes } from '../cluster/index.ts';
import { confirmLoss, renderLosses } from '../loss/index.ts';
import { NodesError } from './errors.ts';

const POLL_MS = 1_000;
/** An eviction that a disruption budget forbids is retried after this time. */
const RETRY_MS = 5_000;
const NAMED_PODS = 3;

/** Flags of `cluster node drain`. */
export interface DrainOptions {
  /** Evict pods that no controller manages, too. */
  readonly force: boolean;
  /** Evict pods with an emptyDir, whose data is then lost. */
  readonly deleteEmptyDirData: boolean;
  readonly timeoutMs: number;
}

/** Arguments of `cluster node drain`. */
export interface RunDrainOptions extends DrainOptions {
  readonly dryRun: boolean;
  /** The operator confirmed the loss with `--yes`. */
  readonly yes: boolean;
}

/** Options of `drainNode()`. */
export interface DrainNodeOptions extends DrainOptions {
  /**
   * The command that drains the node and will uncordon it; saved in an annotation of the Node, unless the
   * node was cordoned before.
   */
  readonly cordonedBy?: string;
}

/** `cluster node cordon`, `uncordon`. */
export async function runCordon(
  context: CommandContext,
  name: string,
  isSchedulable: boolean,
): Promise<void> {
  await withKubernetes(context, (client) =>
    setSchedulable(client, { name, isSchedulable }, { signal: context.signal }),
  );
  context.host.result({ node: name, schedulable: isSchedulable }, () =>
    isSchedulable ? `Node ${name} uncordoned.` : `Node ${name} cordoned.`,
  );
}

/** `cluster node drain`. Asks if pods or data are lost for good, which only its flags allow. */
export async function runDrain(
  context: CommandContext,
  name: string,
  options: RunDrainOptions,
): Promise<void> {
  const pods = await withKubernetes(context, async (client) => {
    await readScheduling(client, name, context.signal); // refuses an unknown node
    return listPodsOn(client, name, context.signal);
  });
  refusePodLoss(name, pods, options);
  const losses = lossesAmong(pods);
  if (options.dryRun) return showDrain(context, name, { moves: pods.filter(isMoved).map(nameOf), losses });
  await confirmLoss(context, { doing: `draining node ${name}`, losses, yes: options.yes });
  const moved = await drainNode(context, name, options);
  context.host.result({ node: name, moved }, () =>
    moved.length === 0
      ? `Node ${name} drained: it had no pods to evict.`
      : `Node ${name} drained: ${counted(moved.length, 'pod')} evicted.`,
  );
}

function showDrain(
  { host }: CommandContext,
  node: string,
  { moves, losses }: { readonly moves: readonly string[]; readonly losses: readonly string[] },
): void {
  host.result({ node, dryRun: true, moves, losses }, () =>
    [
      `Node ${node} would be drained. Nothing was changed.`,
      `  pods to evict, respecting disruption budgets: ${moves.join(', ') || '<none>'}`,
      ...(losses.length === 0 ? [] : ['Consequences:', renderLosses(losses)]),
    ].join('\n'),
  );
}

/**
 * What a drain with these flags would delete for good. Without them a drain refuses such pods, so nothing is lost.
 */
export async function lossesOfDrain(
  context: CommandContext,
  name: string,
  options: DrainOptions,
): Promise<readonly string[]> {
  if (!options.force && !options.deleteEmptyDirData) return [];
  const pods = await withKubernetes(context, (client) => listPodsOn(client, name, context.signal));
  return lossesAmong(pods);
}

/** What is lost for good when these pods are evicted. */
export function lossesAmong(pods: readonly PodOnNode[]): readonly string[] {
  const named = (wanted: PodOnNode['kind']): string =>
    pods
      .filter(({ kind }) => kind === wanted)
      .map(nameOf)
      .join(', ');
  const [alone, data] = [named('alone'), named('with-data')];
  return [
    ...(alone === '' ? [] : [`pods that no controller recreates: ${alone}`]),
    ...(data === '' ? [] : [`the data in the emptyDir volumes of ${data}`]),
  ];
}

/** Static pods and pods of DaemonSets stay. */
function isMoved({ kind }: PodOnNode): boolean {
  return kind !== 'mirror' && kind !== 'daemon';
}

/**
 * Cordons the node and evicts its pods as disruption budgets allow. Returns "NAMESPACE/NAME" of the evicted
 * pods.
 * @throws NodesError `nodes-drain-blocked`, `nodes-drain-timeout`
 */
export async function drainNode(
  context: CommandContext,
  name: string,
  options: DrainNodeOptions,
): Promise<readonly string[]> {
  return context.host.step('node-drain', `Draining node ${name}`, (progress) =>
    withKubernetes(context, async (client) => {
      await cordon(context, client, { name, by: options.cordonedBy });
      const pods = await listPodsOn(client, name, context.signal);
      refusePodLoss(name, pods, options);
      const going = pods.filter(isMoved);
      await evictAll(context, client, going, { name, timeoutMs: options.timeoutMs, progress });
      return going.map(nameOf);
    }),
  );
}

async function cordon(
  { signal }: CommandContext,
  client: KubeClient,
  { name, by }: { readonly name: string; readonly by: string | undefined },
): Promise<void> {
  const node = { name, isSchedulable: false };
  if (by === undefined) return setSchedulable(client, node, { signal });
  const now = await readScheduling(client, name, signal);
  if (now.isSchedulable) await setSchedulable(client, node, { signal, cordonedBy: by });
}

/**
 * Refuses a drain that would lose pods or their data for good. The error lists these pods and the flags that allow
 * their loss.
 */
function refusePodLoss(name: string, pods: readonly PodOnNode[], options: DrainOptions): void {
  const alone = options.force ? [] : pods.filter(({ kind }) => kind === 'alone').map(nameOf);
  const data = options.deleteEmptyDirData ? [] : pods.filter(({ kind }) => kind === 'with-data').map(nameOf);
  if (alone.length + data.length === 0) return;
  const parts = [
    ...(alone.length === 0 ? [] : [`no controller recreates ${alone.join(', ')} (--force)`]),
    ...(data.length === 0
      ? []
      : [`${data.join(', ')} would lose data in an emptyDir (--delete-emptydir-data)`]),
  ];
  throw new NodesError('nodes-drain-blocked', `draining node ${name}: ${parts.join('; ')}`, {
    details: { alone, withData: data },
  });
}

/** Evicts the pods until all of them have left. @throws NodesError `nodes-drain-timeout` */
async function evictAll(
  { ports: { clock }, signal }: CommandContext,
  client: KubeClient,
  going: readonly PodOnNode[],
  {
    name,
    timeoutMs,
    progress,
  }: { readonly name: string; readonly timeoutMs: number; readonly progress: StepProgress },
): Promise<void> {
  const deadlineMs = clock.monotonicMs() + timeoutMs;
  const wanted = new Set(going.map(({ uid }) => uid));
  /** The time of the next eviction attempt of each pod, by its uid. */
  const notBefore = new Map<string, number>();
  let budget = '';
  const evict = async (pod: PodOnNode): Promise<void> => {
    if (clock.monotonicMs() < (notBefore.get(pod.uid) ?? 0)) return;
    notBefore.set(pod.uid, clock.monotonicMs() + RETRY_MS);
    try {
      await evictPod(client, pod, signal);
      budget = '';
    } catch (error) {
      if (!(error instanceof KubeError) || error.code !== 'kube-not-now') throw error;
      budget = `; a disruption budget does not allow evicting ${nameOf(pod)} yet`;
    }
  };
  for (;;) {
    const left = (await listPodsOn(client, name, signal)).filter(({ uid }) => wanted.has(uid));
    if (left.length === 0) return;
    const pods = left.map(nameOf);
    const named = `${pods.slice(0, NAMED_PODS).join(', ')}${pods.length > NAMED_PODS ? ' …' : ''}`;
    const value = going.length - left.length;
    progress.update(`waiting for ${named}${budget}`, { of: going.length, value, unit: 'steps' });
    if (clock.monotonicMs() >= deadlineMs)
      throw new NodesError(
        'nodes-drain-timeout',
        `draining node ${name}: still running after ${formatDuration(timeoutMs)}: ${pods.join(', ')}${budget}`,
        { details: { pods } },
      );
    for (const pod of left) if (!pod.isTerminating) await evict(pod);
    await clock.sleep(POLL_MS, signal);
  }
}

/** "NAMESPACE/NAME" of a pod. */
export function nameOf({ namespace, name }: PodOnNode): string {
  return `${namespace}/${name}`;
}
