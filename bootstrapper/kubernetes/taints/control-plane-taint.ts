import { ExecError } from '../../../internal/exec/index.ts';
import type { SystemPorts } from '../../../internal/platform/index.ts';
import { kubectl } from '../kubectl.ts';
import type { StepCheckpoints } from '../step-checkpoints.ts';

/** The taint that keeps ordinary pods off a control plane. */
export const CONTROL_PLANE_TAINT = 'node-role.kubernetes.io/control-plane';
/** Labels that kubeadm sets on every control plane. The first label identifies a control plane. */
export const CONTROL_PLANE_LABELS = [
  'node-role.kubernetes.io/control-plane',
  'node.kubernetes.io/exclude-from-external-load-balancers',
] as const;
const STEP = 'tainted';
/** Time after which a demotion stops waiting for an API that does not answer. */
const API_TIMEOUT_MS = 30_000;
const RETRY_MS = 1_000;

/** Ports (injected dependencies) for changes of the taint. */
export interface TaintPorts extends Pick<SystemPorts, 'commands'> {
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
 * Adds the taint to a control plane that may not run workloads, and removes it from one that may. Running
 * pods are not affected. The checkpoint is `perhaps` while the taint may be set and `surely` once the taint
 * is set, so a crash in between only repeats a call. If nothing has changed, this function does not call the
 * API, so it does not undo an operator's change of the taint.
 */
export async function reconcileControlPlaneTaint(ports: TaintPorts, options: TaintOptions): Promise<void> {
  const { commands, checkpoints } = ports;
  const { nodeName, signal } = options;
  const isTainted = await checkpoints.isDone(STEP, 'surely');
  if (options.runsWorkloads) {
    if (isTainted || (await checkpoints.isDone(STEP, 'perhaps'))) await untaint(ports, options);
  } else if (!isTainted) {
    await checkpoints.record(STEP, 'perhaps');
    const args = ['taint', 'node', nodeName, `${CONTROL_PLANE_TAINT}:NoSchedule`, '--overwrite'];
    await kubectl(commands, args, signal);
    await checkpoints.record(STEP, 'surely');
  }
}

/**
 * Removes the control-plane taint and labels from this node during its demotion, while the node still has a
 * kubeconfig that permits it. Gives up after 30 s: another control plane removes stale labels later
 * (stale-labels.ts), but the keys must not stay on the node.
 */
export async function removeOwnTaintAndLabels(
  ports: TaintPorts & Pick<SystemPorts, 'clock' | 'log'>,
  options: ApiOptions,
): Promise<void> {
  const { clock, log, commands } = ports;
  const endMs = clock.monotonicMs() + API_TIMEOUT_MS;
  const labels = ['label', 'node', options.nodeName, ...CONTROL_PLANE_LABELS.map((label) => `${label}-`)];
  for (;;) {
    try {
      await untaint(ports, options);
      await kubectl(commands, labels, options.signal);
      return;
    } catch (error) {
      options.signal.throwIfAborted();
      if (!isRetryable(error) || clock.monotonicMs() > endMs)
        return log.info('removing the control-plane taint and labels failed', { error });
      await clock.sleep(RETRY_MS, options.signal);
    }
  }
}

/**
 * Whether to retry. Retries even if the API denies the request, because an API server that has just started
 * has no RBAC rules yet.
 */
function isRetryable(error: unknown): boolean {
  return error instanceof ExecError && !/\(NotFound\)/.test(error.outputTail);
}

type ApiOptions = Omit<TaintOptions, 'runsWorkloads'>;

async function untaint(
  { checkpoints, commands }: TaintPorts,
  { nodeName, signal }: ApiOptions,
): Promise<void> {
  await checkpoints.record(STEP, 'perhaps');
  try {
    await kubectl(commands, ['taint', 'node', nodeName, `${CONTROL_PLANE_TAINT}:NoSchedule-`], signal);
  } catch (error) {
    // kubectl fails if the node does not have the taint.
    if (!(error instanceof ExecError) || !/taint ".*" not found/.test(error.outputTail)) throw error;
  }
  await checkpoints.clear([STEP]);
}
