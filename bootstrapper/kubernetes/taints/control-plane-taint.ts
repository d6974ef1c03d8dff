import type { Clock } from '../../../internal/clock/index.ts';
import { ExecError, type CommandRunner } from '../../../internal/exec/index.ts';
import type { Logger } from '../../../internal/logging/index.ts';
import type { StepCheckpoints } from '../step-checkpoints.ts';
import { PATHS } from '../settings.ts';

/** What ordinary pods are kept off by. */
export const CONTROL_PLANE_TAINT = 'node-role.kubernetes.io/control-plane';
/** What kubeadm writes on every control plane; the first one is its mark. */
export const CONTROL_PLANE_LABELS = [
  'node-role.kubernetes.io/control-plane',
  'node.kubernetes.io/exclude-from-external-load-balancers',
] as const;
const MARK = 'tainted';
const KUBECTL_MS = 15_000;
/** A demotion waits so long for an API that does not answer. */
const PATIENCE_MS = 30_000;
const RETRY_MS = 1_000;

export interface TaintPorts {
  readonly commands: CommandRunner;
  readonly checkpoints: StepCheckpoints;
}

export interface TaintOptions {
  readonly nodeName: string;
  /** Whether ordinary pods may run on this node. */
  readonly runsWorkloads: boolean;
  readonly signal: AbortSignal;
}

/**
 * Keeps ordinary pods off a control plane that is no worker, and lets them in when it becomes one: nothing is restarted, and
 * what runs goes on. The node has, or may have, the taint as long as the mark says so: a crash between the two only
 * repeats what may be repeated. Where nothing changed nobody is asked, so that an operator's own taint stays what it is.
 */
export async function reconcileControlPlaneTaint(ports: TaintPorts, pods: TaintOptions): Promise<void> {
  const { checkpoints: marks } = ports;
  const isTainted = await marks.isDone(MARK, 'surely');
  if (pods.runsWorkloads) {
    if (isTainted || (await marks.isDone(MARK, 'perhaps'))) await untaint(ports, pods);
  } else if (!isTainted) {
    await marks.record(MARK, 'perhaps');
    await kubectl(ports, pods, [
      'taint',
      'node',
      pods.nodeName,
      `${CONTROL_PLANE_TAINT}:NoSchedule`,
      '--overwrite',
    ]);
    await marks.record(MARK, 'surely');
  }
}

/**
 * Takes off a node what names it a control plane: last chance, nobody here may change a node once the keys are gone. Not for
 * ever nevertheless: a node that keeps a mark is a flaw, which another control plane mends (./stray-marks.ts), one that
 * keeps its keys is a danger.
 */
export async function removeOwnTaintAndLabels(
  ports: TaintPorts & { readonly clock: Clock; readonly log: Logger },
  options: Omit<TaintOptions, 'runsWorkloads'>,
): Promise<void> {
  const { clock, log } = ports;
  const endMs = clock.monotonicMs() + PATIENCE_MS;
  const labels = ['label', 'node', options.nodeName, ...CONTROL_PLANE_LABELS.map((label) => `${label}-`)];
  for (;;) {
    try {
      await untaint(ports, options);
      await kubectl(ports, options, labels);
      return;
    } catch (error) {
      options.signal.throwIfAborted();
      if (!isNoAnswer(error) || clock.monotonicMs() > endMs)
        return log.info('the node could not be unmarked from here', { error });
      await clock.sleep(RETRY_MS, options.signal);
    }
  }
}

/** Also a refusal is none: an API server that has just started knows no roles yet. Who is not on record is gone for good. */
function isNoAnswer(error: unknown): boolean {
  return error instanceof ExecError && !/\(NotFound\)/.test(error.outputTail);
}

type Asked = Omit<TaintOptions, 'runsWorkloads'>;

async function untaint(ports: TaintPorts, options: Asked): Promise<void> {
  const { checkpoints: marks } = ports;
  await marks.record(MARK, 'perhaps');
  try {
    await kubectl(ports, options, ['taint', 'node', options.nodeName, `${CONTROL_PLANE_TAINT}:NoSchedule-`]);
  } catch (error) {
    // kubectl makes an error of a taint that is not there.
    if (!(error instanceof ExecError) || !/taint ".*" not found/.test(error.outputTail)) throw error;
  }
  await marks.clear([MARK]);
}

async function kubectl({ commands }: TaintPorts, { signal }: Asked, args: readonly string[]): Promise<void> {
  const argv = [`${PATHS.bin}/kubectl`, '--kubeconfig', PATHS.adminConf, ...args] as const;
  await commands.run({ argv, timeoutMs: KUBECTL_MS, signal });
}
