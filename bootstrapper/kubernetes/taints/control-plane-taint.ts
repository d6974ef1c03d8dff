import type { Clock } from '../../../internal/clock/index.ts';
import { ExecError, type CommandRunner } from '../../../internal/exec/index.ts';
import type { Logger } from '../../../internal/logging/index.ts';
import type { StepCheckpoints } from '../step-checkpoints.ts';
import { PATHS } from '../settings.ts';

/** The taint that keeps ordinary pods off a control plane. */
export const CONTROL_PLANE_TAINT = 'node-role.kubernetes.io/control-plane';
/** Labels that kubeadm sets on every control plane; the first one identifies it. */
export const CONTROL_PLANE_LABELS = [
  'node-role.kubernetes.io/control-plane',
  'node.kubernetes.io/exclude-from-external-load-balancers',
] as const;
const STEP = 'tainted';
const KUBECTL_MS = 15_000;
/** How long a demotion waits for an API that does not answer. */
const API_TIMEOUT_MS = 30_000;
const RETRY_MS = 1_000;

/** What setting the taint uses. */
export interface TaintPorts {
  readonly commands: CommandRunner;
  readonly checkpoints: StepCheckpoints;
}

/** The node and whether it runs workloads. */
export interface TaintOptions {
  readonly nodeName: string;
  /** Whether ordinary pods may run on this node. */
  readonly runsWorkloads: boolean;
  readonly signal: AbortSignal;
}

/**
 * Sets the taint on a control plane that runs no workloads, and removes it when it may; running pods are not affected. The
 * checkpoint is `perhaps` while the taint may be set and `surely` once it is, so that a crash in between only repeats a call.
 * Where nothing has changed the API is not called, so that a taint that the operator has set or removed stays as it is.
 */
export async function reconcileControlPlaneTaint(ports: TaintPorts, pods: TaintOptions): Promise<void> {
  const { checkpoints } = ports;
  const isTainted = await checkpoints.isDone(STEP, 'surely');
  if (pods.runsWorkloads) {
    if (isTainted || (await checkpoints.isDone(STEP, 'perhaps'))) await untaint(ports, pods);
  } else if (!isTainted) {
    await checkpoints.record(STEP, 'perhaps');
    await kubectl(ports, pods, [
      'taint',
      'node',
      pods.nodeName,
      `${CONTROL_PLANE_TAINT}:NoSchedule`,
      '--overwrite',
    ]);
    await checkpoints.record(STEP, 'surely');
  }
}

/**
 * Removes the taint and labels of a control plane from this node during its demotion, while it still has a kubeconfig that may.
 * After 30 s it gives up: another control plane removes stale labels (stale-labels.ts), but keys must not stay on the node.
 */
export async function removeOwnTaintAndLabels(
  ports: TaintPorts & { readonly clock: Clock; readonly log: Logger },
  options: Omit<TaintOptions, 'runsWorkloads'>,
): Promise<void> {
  const { clock, log } = ports;
  const endMs = clock.monotonicMs() + API_TIMEOUT_MS;
  const labels = ['label', 'node', options.nodeName, ...CONTROL_PLANE_LABELS.map((label) => `${label}-`)];
  for (;;) {
    try {
      await untaint(ports, options);
      await kubectl(ports, options, labels);
      return;
    } catch (error) {
      options.signal.throwIfAborted();
      if (!isRetryable(error) || clock.monotonicMs() > endMs)
        return log.info('removing the control-plane taint and labels failed', { error });
      await clock.sleep(RETRY_MS, options.signal);
    }
  }
}

/** Whether to retry. A refusal counts too: an API server that has just started has no RBAC rules yet. */
function isRetryable(error: unknown): boolean {
  return error instanceof ExecError && !/\(NotFound\)/.test(error.outputTail);
}

type ApiOptions = Omit<TaintOptions, 'runsWorkloads'>;

async function untaint(ports: TaintPorts, options: ApiOptions): Promise<void> {
  const { checkpoints } = ports;
  await checkpoints.record(STEP, 'perhaps');
  try {
    await kubectl(ports, options, ['taint', 'node', options.nodeName, `${CONTROL_PLANE_TAINT}:NoSchedule-`]);
  } catch (error) {
    // kubectl fails where the node does not have the taint.
    if (!(error instanceof ExecError) || !/taint ".*" not found/.test(error.outputTail)) throw error;
  }
  await checkpoints.clear([STEP]);
}

async function kubectl(
  { commands }: TaintPorts,
  { signal }: ApiOptions,
  args: readonly string[],
): Promise<void> {
  const argv = [`${PATHS.bin}/kubectl`, '--kubeconfig', PATHS.adminConf, ...args] as const;
  await commands.run({ argv, timeoutMs: KUBECTL_MS, signal });
}
