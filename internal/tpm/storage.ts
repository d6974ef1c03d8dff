import { HIERARCHY } from './commands/hierarchies.ts';
import { createPrimary, type LoadedKey } from './commands/keys.ts';
import { startSaltedSession, type SaltedSession } from './commands/sessions.ts';
import type { TpmConnection } from './connection.ts';
import { TpmError } from './errors.ts';
import { STORAGE_ROOT } from './structures/templates.ts';

/** The storage key, and a session that only its TPM and this program can use. */
export interface Storage extends AsyncDisposable {
  /** The parent of all sealed secrets, which the TPM derives from the seed of its owner hierarchy. */
  readonly key: LoadedKey;
  readonly session: SaltedSession;
}

/**
 * Opens the storage key, and a session that is salted to it. Somebody who answers on the bus can show a key of its own, so the key must
 * have the Name for which the secret was sealed, and that with which this program opened sessions before. Anything secret is sent
 * only afterwards. The first secret of a machine has no such Name: then the key is trusted as it is.
 * @param sealedFor the Name; absent when a secret is sealed, or was sealed by an earlier version
 * @throws TpmError `tpm-storage-key-changed`
 */
export async function openStorage(
  tpm: TpmConnection,
  sealedFor: Uint8Array | undefined,
  signal: AbortSignal,
): Promise<Storage> {
  const primary = await createPrimary(tpm, { hierarchy: HIERARCHY.owner, template: STORAGE_ROOT }, signal);
  for (const known of [sealedFor, tpm.memory.storageKeyName]) {
    if (known === undefined || Buffer.compare(known, primary.name) === 0) continue;
    const details = { known: hexOf(known), shown: hexOf(primary.name) };
    throw new TpmError('tpm-storage-key-changed', 'opening a session to the TPM', { details });
  }
  const session = await startSaltedSession(tpm, primary, signal);
  tpm.memory.storageKeyName = primary.name;
  return {
    key: { ...primary, auth: session.authorize() },
    session,
    [Symbol.asyncDispose]: async () => {
      await session[Symbol.asyncDispose]();
      await primary[Symbol.asyncDispose]();
    },
  };
}

function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}
