import { CodedError } from '../../internal/errors/index.ts';
import { KubeError, readScheduling, setSchedulable } from '../../internal/kube/index.ts';
import { formatDuration } from '../../internal/clock/index.ts';
import { RemoteError } from '../../internal/rpc/index.ts';
import { printable } from '../../internal/printable/index.ts';
import { NodeHealth, NodeRole, NodeState, type Node } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { PowerAction } from '../../joinservice/curatorproto/gen/streams_pb.js';
import type { CommandContext, StepProgress } from '../app/command.ts';
import { callCurator, findNode, withKubernetes } from '../cluster/index.ts';
import { confirmLoss } from '../loss/index.ts';
import { drainNode, lossesOfDrain, type DrainOptions } from './drain.ts';
import { NodesError } from './errors.ts';
import { planPower, showPowerPlan, type PowerPlan } from './power-plan.ts';
import { controlPlaneComponents } from './roles/control-plane-components.ts';
import { missingPod } from './roles/missing-pods.ts';

const POLL_MS = 1_000;
/** An order without an answer is sent again after this time. */
const RESEND_MS = 15_000;
/** Within this time after its start, an API server has read the RBAC roles. */
const ROLES_MS = 60_000;
/** Error codes for a caller without a kubeconfig, and for a node that Kubernetes does not know. */
const WITHOUT_NODE: readonly string[] = ['cluster-no-kubeconfig', 'kube-not-found'];
/**
 * The annotation of a Node that was cordoned for a restart starts with this text. The ID of the boot that the restart
 * ends follows.
 */
const CORDONED_BY_REBOOT = 'reboot ';

/** Flags of `cluster node reboot` and `cluster node shutdown`. */
export interface PowerOptions {
  /** Evict the pods of the node first. */
  readonly drains: boolean;
  readonly drain: DrainOptions;
  /** How long the machine may take. */
  readonly waitMs: number;
  readonly dryRun: boolean;
  readonly yes: boolean;
}

/** `cluster node reboot`: drains the node, restarts its machine, and uncordons it when it is ready again. */
export async function runReboot(context: CommandContext, name: string, options: PowerOptions): Promise<void> {
  const plan = await planWithDrain(context, name, { ...options, action: 'reboot' });
  const { node, bootId } = plan;
  const doneFor = await rebootedBefore(context, node);
  if (options.dryRun) return showPowerPlan(context, plan, options.drains);
  if (doneFor === undefined) {
    await confirmLoss(context, {
      doing: `restarting node ${node.name}`,
      losses: plan.losses,
      yes: options.yes,
    });
    if (options.drains)
      await drainNode(context, node.name, { ...options.drain, cordonedBy: `${CORDONED_BY_REBOOT}${bootId}` });
    await restart(context, plan, options.waitMs);
  }
  await untilServing(context, node, options.waitMs);
  await untilUncordoned(context, node.name, options.waitMs);
  context.host.result({ node: node.name, rebooted: true }, () => `Node ${node.name} restarted.`);
}

/** `cluster node shutdown`: drains the node and switches its machine off. The node stays cordoned. */
export async function runShutdown(
  context: CommandContext,
  name: string,
  options: PowerOptions,
): Promise<void> {
  const found = await findNode(context, name);
  // An earlier run may have sent the order.
  if (found.state === NodeState.UP && found.health === NodeHealth.TIMEOUT)
    return context.host.result({ node: found.name, off: false }, () =>
      printable(`Node ${found.name} does not respond: it is off, or it cannot be reached.`),
    );
  const plan = await planWithDrain(context, name, { ...options, action: 'off' });
  const { node } = plan;
  if (options.dryRun) return showPowerPlan(context, plan, options.drains);
  await confirmLoss(context, {
    doing: `shutting down node ${node.name}`,
    losses: plan.losses,
    yes: options.yes,
  });
  if (options.drains) await drainNode(context, node.name, options.drain);
  const isBack = await switchOff(context, plan, options.waitMs);
  context.host.result({ node: node.name, off: !isBack }, () =>
    [
      ...(isBack
        ? [`Node ${node.name} was shut down, and its machine has started again by itself.`]
        : [
            `Node ${node.name} is shutting down.`,
            'It remains a member. When its machine is started again, it returns by itself.',
          ]),
      ...(options.drains ? [`Then: cluster node uncordon ${node.name}`] : []),
    ].join('\n'),
  );
}

/** The plan, with what its drain deletes for good. @throws NodesError `nodes-change-unsafe` */
async function planWithDrain(
  context: CommandContext,
  name: string,
  { action, drains, drain }: Pick<PowerOptions, 'drains' | 'drain'> & { readonly action: 'reboot' | 'off' },
): Promise<PowerPlan> {
  const plan = await planPower(context, name, action);
  const pods = drains ? await lossesOfDrain(context, plan.node.name, drain) : [];
  return { ...plan, losses: [...plan.losses, ...pods] };
}

/**
 * The boot that an interrupted earlier run has already ended; undefined if there was no such run. After such a run,
 * only the cordon is left to remove.
 */
async function rebootedBefore(context: CommandContext, { name, status }: Node): Promise<string | undefined> {
  const by = await cordonOf(context, name).catch((error: unknown) => {
    if (error instanceof KubeError) return undefined; // Kubernetes is down: a drain would say so
    throw error;
  });
  const bootId =
    by?.startsWith(CORDONED_BY_REBOOT) === true ? by.slice(CORDONED_BY_REBOOT.length) : undefined;
  return bootId === status?.bootId ? undefined : bootId;
}

/** Who cordoned the Node; undefined without access to Kubernetes, as operators may have none. */
async function cordonOf(context: CommandContext, name: string): Promise<string | undefined> {
  try {
    return await withKubernetes(
      context,
      async (client) => (await readScheduling(client, name, context.signal)).cordonedBy,
    );
  } catch (error) {
    context.signal.throwIfAborted();
    if (error instanceof CodedError && WITHOUT_NODE.includes(String(error.code))) return undefined;
    throw error;
  }
}

/**
 * Sends the order. A machine that stops at once may not answer any more, so a lost response proves neither success nor
 * failure.
 * @returns whether the machine has taken the order
 */
async function sendOrder(context: CommandContext, plan: PowerPlan, action: PowerAction): Promise<boolean> {
  const { node, bootId } = plan;
  try {
    await callCurator(context, ({ nodeStreams }) =>
      nodeStreams.changePower({ node: node.nodeId, power: { action, bootId } }),
    );
    return true;
  } catch (error) {
    context.signal.throwIfAborted();
    if (!(error instanceof CodedError)) throw error;
    // The machine has restarted since an earlier attempt.
    if (error instanceof RemoteError && error.causeCode === 'nodestream-other-boot') return true;
    if (error.retryable) return false;
    throw error;
  }
}

/** Sends the order again while it may have been lost, until `look` reports that nothing is missing. */
async function order(
  context: CommandContext,
  plan: PowerPlan,
  { action, look, ...step }: PowerStep,
): Promise<void> {
  const { clock } = context.ports;
  let isTaken = false;
  let sentMs = -Infinity;
  await until(context, step, async () => {
    if (!isTaken && clock.monotonicMs() - sentMs >= RESEND_MS) {
      sentMs = clock.monotonicMs();
      isTaken = await sendOrder(context, plan, action);
    }
    return look();
  });
}

interface PowerStep {
  readonly code: string;
  readonly title: string;
  readonly waitMs: number;
  readonly action: PowerAction;
  readonly look: () => Promise<string | undefined>;
}

/** Restarts the machine, and waits until the node reports another boot. Meanwhile the cluster itself may not answer. */
async function restart(context: CommandContext, plan: PowerPlan, waitMs: number): Promise<void> {
  const { node, bootId } = plan;
  const step = { code: 'node-power-reboot', title: `Restarting ${node.name}`, waitMs };
  const look = async (): Promise<string | undefined> => {
    const found = await findNode(context, node.nodeId);
    if (found.status?.bootId === bootId) return 'it has not restarted yet';
    return found.health === NodeHealth.HEALTHY ? undefined : 'it has restarted and does not respond yet';
  };
  await order(context, plan, { ...step, action: PowerAction.REBOOT, look });
}

/** Waits until the control plane of the node runs, so that the next control plane may be restarted. */
async function untilServing(
  context: CommandContext,
  { roles, name, nodeId }: Node,
  waitMs: number,
): Promise<void> {
  if (!roles.includes(NodeRole.KUBERNETES_CONTROLLER)) return;
  const step = { code: 'node-power-serving', title: `Waiting for the control plane of ${name}`, waitMs };
  await until(context, step, async () => {
    const components = controlPlaneComponents(await findNode(context, nodeId));
    const missing = components.find(({ isReady }) => !isReady);
    return missing && `its ${missing.name} is not ready: ${missing.why}`;
  });
}

/**
 * Switches the machine off, and waits until the node does not respond any more, unless the etcd quorum is lost with
 * this machine, because then no curator can report it.
 * @returns whether the machine has started again since, as with a watchdog or a hypervisor that keeps it running
 */
async function switchOff(context: CommandContext, plan: PowerPlan, waitMs: number): Promise<boolean> {
  const { node, bootId, endsQuorum } = plan;
  let isBack = false;
  const step = { code: 'node-power-off', title: `Shutting down ${node.name}`, waitMs };
  const look = async (): Promise<string | undefined> => {
    if (endsQuorum) return undefined;
    const { health, status } = await findNode(context, node.nodeId);
    isBack = health === NodeHealth.HEALTHY && status?.bootId !== bootId;
    return health === NodeHealth.HEALTHY && !isBack ? 'it still responds' : undefined;
  };
  await order(context, plan, { ...step, action: PowerAction.OFF, look });
  return isBack;
}

/**
 * Waits until Kubernetes shows the pods of the control plane as ready, and ends the cordon of a restart, in this run or an interrupted
 * one; a cordon of an operator stays.
 */
async function untilUncordoned(context: CommandContext, name: string, waitMs: number): Promise<void> {
  const { clock } = context.ports;
  const startedMs = clock.monotonicMs();
  const step = { code: 'node-power-uncordon', title: `Checking the pods and the cordon of ${name}`, waitMs };
  await until(context, step, async () => {
    try {
      return await uncordon(context, name);
    } catch (error) {
      context.signal.throwIfAborted();
      if (!(error instanceof CodedError)) throw error;
      if (WITHOUT_NODE.includes(String(error.code))) return undefined;
      // An API server that has just started refuses everybody until it has read the roles.
      const isStarting = clock.monotonicMs() - startedMs < ROLES_MS;
      if (isStarting && error.code === 'kube-refused') return printable(error.message);
      throw error;
    }
  });
}

async function uncordon(context: CommandContext, name: string): Promise<string | undefined> {
  const { signal } = context;
  return withKubernetes(context, async (client) => {
    const pod = await missingPod(client, name, signal);
    if (pod !== undefined) return pod;
    const { cordonedBy } = await readScheduling(client, name, signal);
    if (cordonedBy?.startsWith(CORDONED_BY_REBOOT) === true)
      await setSchedulable(client, { name, isSchedulable: true }, { signal });
    return undefined;
  });
}

/** Repeats `look` until it reports that nothing is missing. Errors that may pass count as missing. */
async function until(
  context: CommandContext,
  step: { readonly code: string; readonly title: string; readonly waitMs: number },
  look: () => Promise<string | undefined>,
): Promise<void> {
  const { clock } = context.ports;
  const deadlineMs = clock.monotonicMs() + step.waitMs;
  const attempt = async (progress: StepProgress): Promise<string | undefined> => {
    try {
      const missing = await look();
      if (missing !== undefined) progress.update(missing);
      return missing;
    } catch (error) {
      context.signal.throwIfAborted();
      if (!(error instanceof CodedError) || !error.retryable) throw error;
      const text = printable(error.message);
      progress.update(text);
      return text;
    }
  };
  await context.host.step(step.code, step.title, async (progress) => {
    for (;;) {
      const missing = await attempt(progress);
      if (missing === undefined) return;
      if (clock.monotonicMs() >= deadlineMs)
        throw new NodesError(
          'nodes-power-timeout',
          `${step.title}: ${missing} after ${formatDuration(step.waitMs)}`,
        );
      await clock.sleep(POLL_MS, context.signal);
    }
  });
}
