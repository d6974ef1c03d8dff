import {
  evictPod,
  KubeError,
  listPodsOn,
  readScheduling,
  setSchedulable,
  type KubeClient,
  type PodOnNode,
} from '../../internal/kube/index.ts';
import type { CommandContext, StepProgress } from '../app/command.ts';
import { withKubernetes } from '../cluster/index.ts';
import { NodesError } from './errors.ts';

const POLL_MS = 1_000;
/** A budget that forbids an eviction is asked again after this time. */
const RETRY_MS = 5_000;
const NAMED_PODS = 3;

export interface DrainOptions {
  /** Pods that nobody makes anew elsewhere may go. */
  readonly force: boolean;
  /** What pods keep in an emptyDir may be lost. */
  readonly deleteEmptyDirData: boolean;
  readonly timeoutMs: number;
}

export interface DrainNodeOptions extends DrainOptions {
  /** Who cordons, and will end it, where an operator has not cordoned the node before. */
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
    isSchedulable ? `Node ${name} takes new pods.` : `Node ${name} takes no new pods.`,
  );
}

/** `cluster node drain`. */
export async function runDrain(context: CommandContext, name: string, options: DrainOptions): Promise<void> {
  const moved = await drainNode(context, name, options);
  context.host.result({ node: name, moved }, () =>
    moved.length === 0
      ? `Node ${name} had no pods to move; it takes no new ones.`
      : `Node ${name} is drained: ${moved.length} pods have left, it takes no new ones.`,
  );
}

/** Cordons the node and moves its pods away as disruption budgets allow. Answers the names of those that left. */
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
      const going = pods.filter(({ kind }) => kind !== 'mirror' && kind !== 'daemon');
      await new Eviction(context, client, { name, progress, timeoutMs: options.timeoutMs }).run(going);
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

/** Before any pod is touched: what would be lost for good, and the flag that says it may be. */
export function refusePodLoss(name: string, pods: readonly PodOnNode[], options: DrainOptions): void {
  const alone = options.force ? [] : pods.filter(({ kind }) => kind === 'alone').map(nameOf);
  const data = options.deleteEmptyDirData ? [] : pods.filter(({ kind }) => kind === 'with-data').map(nameOf);
  if (alone.length + data.length === 0) return;
  const parts = [
    ...(alone.length === 0 ? [] : [`nobody makes ${alone.join(', ')} anew (--force)`]),
    ...(data.length === 0 ? [] : [`${data.join(', ')} would lose an emptyDir (--delete-emptydir-data)`]),
  ];
  throw new NodesError('nodes-drain-blocked', `draining node ${name}: ${parts.join('; ')}`, {
    details: { alone, withData: data },
  });
}

class Eviction {
  readonly #context: CommandContext;
  readonly #client: KubeClient;
  readonly #name: string;
  readonly #progress: StepProgress;
  readonly #timeoutMs: number;
  /** When each pod, by its uid, may be asked to go again. */
  readonly #notBefore = new Map<string, number>();
  #budget = '';

  constructor(
    context: CommandContext,
    client: KubeClient,
    what: { readonly name: string; readonly progress: StepProgress; readonly timeoutMs: number },
  ) {
    this.#context = context;
    this.#client = client;
    this.#name = what.name;
    this.#progress = what.progress;
    this.#timeoutMs = what.timeoutMs;
  }

  async run(going: readonly PodOnNode[]): Promise<void> {
    const { clock } = this.#context.ports;
    const { signal } = this.#context;
    const deadlineMs = clock.monotonicMs() + this.#timeoutMs;
    const wanted = new Set(going.map(({ uid }) => uid));
    for (;;) {
      const left = (await listPodsOn(this.#client, this.#name, signal)).filter(({ uid }) => wanted.has(uid));
      if (left.length === 0) return;
      const names = left.slice(0, NAMED_PODS).map(nameOf).join(', ');
      const text = `waiting for ${names}${left.length > NAMED_PODS ? ' …' : ''}${this.#budget}`;
      this.#progress.update(text, { of: going.length, value: going.length - left.length, unit: 'steps' });
      if (clock.monotonicMs() >= deadlineMs)
        throw new NodesError(
          'nodes-drain-timeout',
          `draining node ${this.#name} for ${this.#timeoutMs / 1000} s: ${left.map(nameOf).join(', ')} are still there${this.#budget}`,
          { details: { pods: left.map(nameOf) } },
        );
      for (const pod of left) if (!pod.isTerminating) await this.#evict(pod);
      await clock.sleep(POLL_MS, signal);
    }
  }

  async #evict(pod: PodOnNode): Promise<void> {
    const { clock } = this.#context.ports;
    if (clock.monotonicMs() < (this.#notBefore.get(pod.uid) ?? 0)) return;
    this.#notBefore.set(pod.uid, clock.monotonicMs() + RETRY_MS);
    try {
      await evictPod(this.#client, pod, this.#context.signal);
      this.#budget = '';
    } catch (error) {
      if (!(error instanceof KubeError) || error.code !== 'kube-not-now') throw error;
      this.#budget = `; a disruption budget keeps ${nameOf(pod)} for now`;
    }
  }
}

function nameOf({ namespace, name }: PodOnNode): string {
  return `${namespace}/${name}`;
}
