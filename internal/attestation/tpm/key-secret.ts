import { randomBytes } from 'node:crypto';
import type { FilePort } from '../../file/index.ts';
import { Secret } from '../../secret/index.ts';
import { readPcrs, sealSecret, unsealSecret, type Tpm } from '../../tpm/index.ts';

export interface KeySecretOptions {
  readonly tpm: Tpm;
  readonly files: FilePort;
  /** Where the sealed secret lies; it is of no use without this TPM in this state. */
  readonly path: string;
  /**
   * PCRs that must be as they were when the secret was made: those that tell the agent's software. Never one that is
   * extended later in the life of a boot, before the secret is needed again.
   */
  readonly pcrs: readonly number[];
}

const SECRET_BYTES = 32;
const MAX_SEALED_BYTES = 4096;

/**
 * The secret behind this machine's attestation key, which binds the key's use to the software that can unseal it. Made
 * and sealed to the present PCR values the first time. `tpm-policy-failed` when other software runs now: it must not
 * get a new key under the old one's name, so nothing is made anew.
 */
export function openKeySecret(options: KeySecretOptions, signal: AbortSignal): Promise<Secret<Uint8Array>> {
  const { tpm, files, path, pcrs } = options;
  return tpm.use(signal, async (connection, taskSignal) => {
    const sealed = await files.read(path, MAX_SEALED_BYTES);
    if (sealed !== undefined) return unsealSecret(connection, sealed, taskSignal);
    const secret = new Secret<Uint8Array>(randomBytes(SECRET_BYTES));
    const values = await readPcrs(connection, { hash: 'sha256', pcrs }, taskSignal);
    await files.writeAtomic(path, await sealSecret(connection, secret, values, taskSignal));
    return secret;
  });
}

/** Seals the open secret to the values that the next boot will have: what an upgrade does before it restarts. */
export function resealKeySecret(
  { tpm, files, path }: Omit<KeySecretOptions, 'pcrs'>,
  secret: Secret<Uint8Array>,
  nextValues: ReadonlyMap<number, Uint8Array>,
  signal: AbortSignal,
): Promise<void> {
  return tpm.use(signal, async (connection, taskSignal) => {
    await files.writeAtomic(path, await sealSecret(connection, secret, nextValues, taskSignal));
  });
}
