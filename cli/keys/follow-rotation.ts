import { CodedError, describeError } from '../../internal/errors/index.ts';
import { printable } from '../../internal/printable/index.ts';
import type { CommandContext, StepProgress } from '../app/command.ts';
import {
  callCurator,
  describeRotationPhase,
  fetchKeysView,
  readCaller,
  renewKubeconfig,
  type KeysView,
} from '../cluster/index.ts';

const POLL_MS = 2_000;
/**
 * Time without progress after which a rotation counts as stalled. The longest phase, in which pods read new
 * tokens, takes two minutes.
 */
const STALLED_MS = 10 * 60 * 1000;
/** From these phases on, every control plane trusts the new keys and issues nothing with the old ones. */
const RENEWABLE = ['refresh', 'retire', 'done'];

/**
 * Follows a rotation of the shared keys until it is done or has stalled; returns the last view of it. Meanwhile it renews
 * the kubeconfig of the workspace, before the old one is refused. The rotation does not depend on this program.
 */
export async function followRotation(context: CommandContext, generation: number): Promise<KeysView> {
  const { clock } = context.ports;
  const needsRenewal = (await readCaller(context)).kind === 'owner';
  return context.host.step('keys-follow', 'Rotating the shared keys', async (progress) => {
    const renewal = { isDone: !needsRenewal, error: '' };
    let last: KeysView | undefined;
    let changedMs = clock.monotonicMs();
    for (;;) {
      const keys = await readKeys(context, progress);
      if (keys !== undefined) {
        if (!renewal.isDone && isRenewable(keys, generation)) await tryRenewal(context, renewal);
        if (last === undefined || progressOf(last) !== progressOf(keys)) changedMs = clock.monotonicMs();
        last = keys;
        const isDone = keys.isDone && keys.generation >= generation;
        if (isDone && renewal.isDone) return keys;
        const text = isDone ? 'renewing the kubeconfig' : describeRotationPhase(keys, clock.nowMs());
        progress.update(renewal.error === '' ? text : `${text} (${renewal.error})`);
      }
      if (clock.monotonicMs() - changedMs > STALLED_MS && last !== undefined) {
        if (renewal.error !== '') context.host.warn('kubeconfig-not-renewed', renewal.error);
        return last;
      }
      await clock.sleep(POLL_MS, context.signal);
    }
  });
}

function isRenewable({ generation, phase }: KeysView, wanted: number): boolean {
  return generation >= wanted && RENEWABLE.includes(phase);
}

function progressOf({ generation, phase, awaited }: KeysView): string {
  return JSON.stringify([generation, phase, awaited.map(({ name }) => name)]);
}

/**
 * Reads the state of the rotation. undefined if no curator responds, because curators and etcd restart during
 * a rotation.
 */
async function readKeys(context: CommandContext, progress: StepProgress): Promise<KeysView | undefined> {
  try {
    return await callCurator(context, fetchKeysView);
  } catch (error) {
    context.signal.throwIfAborted();
    if (!(error instanceof CodedError) || !error.retryable) throw error;
    progress.update(printable(`retrying: ${describeError(error)}`));
    return undefined;
  }
}

async function tryRenewal(
  context: CommandContext,
  renewal: { isDone: boolean; error: string },
): Promise<void> {
  try {
    await renewKubeconfig(context);
    Object.assign(renewal, { isDone: true, error: '' });
  } catch (error) {
    context.signal.throwIfAborted();
    renewal.error = printable(`renewing the kubeconfig: ${describeError(error)}`);
  }
}
