import { CodedError, describeError } from '../../internal/errors/index.ts';
import type { CommandContext, StepProgress } from '../app/command.ts';
import { printable } from '../../internal/printable/index.ts';
import {
  fetchKeysView,
  describeRotationPhase,
  readCaller,
  renewKubeconfig,
  type KeysView,
  callCurator,
} from '../cluster/index.ts';

const POLL_MS = 2_000;
/** The longest step, where pods read their new tokens, takes two minutes; who stands still for longer waits for somebody. */
const STILL_MS = 10 * 60 * 1000;
/** From here on every control plane believes what the new keys make, and makes no more with the old ones. */
const RENEWABLE = ['refresh', 'retire', 'done'];

/**
 * Follows how the keys that control planes share are replaced, until it is done or stands still, and renews the kubeconfig
 * of this workspace on the way: before the old one is refused. The cluster goes on without us.
 */
export async function followRotation(context: CommandContext, generation: number): Promise<KeysView> {
  const { clock } = context.ports;
  const needsRenewal = (await readCaller(context)).kind === 'owner';
  return context.host.step('keys-follow', 'Replacing the keys of control planes', async (progress) => {
    const renewal = { isDone: !needsRenewal, error: '' };
    let last: KeysView | undefined;
    let movedMs = clock.monotonicMs();
    for (;;) {
      const keys = await lookAtKeys(context, progress);
      if (keys !== undefined) {
        if (!renewal.isDone && isRenewable(keys, generation)) await tryRenewal(context, renewal);
        if (hasMoved(last, keys)) movedMs = clock.monotonicMs();
        last = keys;
        const isDone = keys.isDone && keys.generation >= generation;
        if (isDone && renewal.isDone) return keys;
        const text = isDone ? 'renewing the kubeconfig' : describeRotationPhase(keys, clock.nowMs());
        progress.update(renewal.error === '' ? text : `${text} (${renewal.error})`);
      }
      if (clock.monotonicMs() - movedMs > STILL_MS && last !== undefined) {
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

function hasMoved(before: KeysView | undefined, now: KeysView): boolean {
  const mark = ({ generation, phase, awaited }: KeysView): string =>
    JSON.stringify([generation, phase, awaited.map(({ name }) => name)]);
  return before === undefined || mark(before) !== mark(now);
}

/** undefined where nobody answered: curators and etcd are started again on the way. */
async function lookAtKeys(context: CommandContext, progress: StepProgress): Promise<KeysView | undefined> {
  try {
    return await callCurator(context, (_, call, of) => fetchKeysView(of, call));
  } catch (error) {
    context.signal.throwIfAborted();
    if (!(error instanceof CodedError) || !error.retryable) throw error;
    progress.update(printable(`asking again: ${describeError(error)}`));
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
    renewal.error = printable(`the kubeconfig is not renewed yet: ${describeError(error)}`);
  }
}
