import { randomBytes } from 'node:crypto';
import type { FilePort } from '../../file/index.ts';
import { Secret } from '../../secret/index.ts';
import { sealSecret, unsealSecret, type Tpm } from '../../tpm/index.ts';

/** The location of the attestation key's secret. */
export interface KeySecretOptions {
  readonly tpm: Tpm;
  readonly files: FilePort;
  /** Path of the sealed secret. Only this TPM, with these PCR values, can unseal it. */
  readonly path: string;
  /**
   * PCRs that must have the same values as when the secret was created: those that measure the software of the agent.
   * They must not be extended after startup.
   */
  readonly pcrs: readonly number[];
}

const SECRET_BYTES = 32;
const MAX_SEALED_BYTES = 4096;

/**
 * Unseals the secret that the attestation key of this machine depends on, so that only the measured software can use
 * the key. Creates the secret and seals it to the current PCR values the first time. Throws TpmError
 * `tpm-policy-failed` when other software is running. In this case no new secret is created.
 */
export function openKeySecret(options: KeySecretOptions, signal: AbortSignal): Promise<Secret<Uint8Array>> {
  const { tpm, files, path, pcrs } = options;
  return tpm.use(signal, async (connection, taskSignal) => {
    const sealed = await files.read(path, MAX_SEALED_BYTES);
    if (sealed !== undefined) return unsealSecret(connection, sealed, taskSignal);
    const secret = new Secret<Uint8Array>(randomBytes(SECRET_BYTES));
    await files.writeAtomic(path, await sealSecret(connection, secret, pcrs, taskSignal));
    return secret;
  });
}
