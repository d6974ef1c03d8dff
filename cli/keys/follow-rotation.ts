import { CodedError, describeError } from '../../internal/errors/index.ts';
import { printable } from '../../internal/printable/index.ts';
import type { CommandContext, StepProgress } from '../app/command.ts';
import {
  callCurator,
  describeRotationPhase,
  fetchKeysView,
  type KeysView,
  type NewKeysView,
  newMutation,
  readCaller,
  renewKubeconfig,
} from '../cluster/index.ts';
import { openSigner, requireKnownMaker } from '../sign/index.ts';

const POLL_MS = 2_000;
/**
 * Time without progress after which a rotation counts as stalled. The longest phase, in which pods read new
 * tokens, takes two minutes.
 */
const STALLED_MS = 10 * 60 * 1000;
/** From these phases on, every control plane trusts the new keys and issues nothing with the old ones. */
const RENEWABLE = ['refresh', 'retire', 'done'];

/**
 * Signs the new keys of a requested rotation as soon as a control plane has created them, and returns the last state of
 * the rotation once it needs nothing more from an owner, or has stalled. Returns undefined if the caller is not an
 * owner: then another owner has to sign.
 * @throws SignError `sign-new-keys-untrusted`
 */
export async function followUntilSigned(
  context: CommandContext,
  generation: number,
): Promise<KeysView | undefined> {
  const { clock } = context.ports;
  if (!(await readCaller(context)).isOwner) return undefined;
  return context.host.step('keys-sign', 'Signing the new keys', async (progress) => {
    const deadlineMs = clock.monotonicMs() + STALLED_MS;
    const signing = new Signing(context, progress);
    for (;;) {
      const keys = await readKeys(context, progress);
      if (keys !== undefined) {
        await signing.signIfNeeded(keys);
        if (keys.generation >= generation && !isAwaitingOwner(keys)) return keys;
        progress.update(describeRotationPhase(keys, clock.nowMs()));
        if (clock.monotonicMs() > deadlineMs) return keys;
      }
      await clock.sleep(POLL_MS, context.signal);
    }
  });
}

/** Whether a rotation has no new keys yet, or keys that no owner has signed. */
export function isAwaitingOwner({ phase, newKeys }: KeysView): boolean {
  return phase === 'asked' && newKeys?.isSigned !== true;
}

/**
 * Signs new keys for the calling owner. Signs the keys of each generation and creator only once, even if a curator asks
 * again.
 */
class Signing {
  readonly #context: CommandContext;
  readonly #progress: StepProgress;
  readonly #signed = new Set<string>();

  constructor(context: CommandContext, progress: StepProgress) {
    this.#context = context;
    this.#progress = progress;
  }

  /** Signs the keys if they wait for an owner. An error that may pass is shown, and the next call tries again. */
  async signIfNeeded(keys: KeysView): Promise<void> {
    const { newKeys } = keys;
    if (!isAwaitingOwner(keys) || newKeys === undefined || this.#signed.has(newKeys.signature)) return;
    try {
      if (await signNewKeys(this.#context, newKeys)) this.#signed.add(newKeys.signature);
    } catch (error) {
      this.#context.signal.throwIfAborted();
      if (!(error instanceof CodedError) || !error.retryable) throw error;
      this.#progress.update(printable(`signing the new keys: ${describeError(error)}`));
    }
  }
}

/**
 * Follows a rotation of the shared keys until it is done or has stalled; returns the last state of the rotation.
 * Meanwhile this function signs the new keys, if the caller is an owner, and renews the kubeconfig of the workspace
 * before the old kubeconfig is refused. After the signature the rotation does not depend on this program.
 * @throws SignError `sign-new-keys-untrusted`
 */
export async function followRotation(context: CommandContext, generation: number): Promise<KeysView> {
  const { clock } = context.ports;
  const { kind, isOwner } = await readCaller(context);
  const needsRenewal = kind === 'owner';
  return context.host.step('keys-follow', 'Rotating the shared keys', async (progress) => {
    const renewal = { isDone: !needsRenewal, error: '' };
    const signing = new Signing(context, progress);
    let last: KeysView | undefined;
    let changedMs = clock.monotonicMs();
    for (;;) {
      const keys = await readKeys(context, progress);
      if (keys !== undefined) {
        if (isOwner) await signing.signIfNeeded(keys);
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

/**
 * Signs new keys that wait for an owner, and stores the signature. Returns false if the caller is not an owner.
 * @throws SignError `sign-new-keys-untrusted`
 */
async function signNewKeys(context: CommandContext, keys: NewKeysView): Promise<boolean> {
  const signer = await openSigner(context);
  if (signer === undefined) return false;
  await requireKnownMaker(context, signer, keys);
  const documents = [signer.sign('keys', keys.signed)];
  const mutation = newMutation();
  await callCurator(context, ({ operatorApi }) => operatorApi.putDocuments({ documents, mutation }));
  return true;
}
