import type { FilePort } from '../../file/index.ts';
import { findCoded } from '../../errors/index.ts';
import type { Secret } from '../../secret/index.ts';
import { BatchQuoter, type Tpm } from '../../tpm/index.ts';
import { checkBinding } from '../appraise.ts';
import type { Issuer } from '../verdict.ts';
import { encodeTpmEvidence } from './evidence.ts';

/** Path of the firmware event log of the first TPM. */
export const FIRMWARE_EVENT_LOG = '/sys/kernel/security/tpm0/binary_bios_measurements';

/** Size limit of the event log in evidence, next to quote, values and proof. */
export const MAX_ATTACHED_LOG_BYTES = 60 * 1024;

/** Configuration of a TPM issuer. */
interface TpmIssuerOptions {
  readonly tpm: Tpm;
  readonly pcrs: readonly number[];
  /** The secret that the attestation key depends on; see `createAttestationKey()`. */
  readonly attestationKeySecret?: Secret<Uint8Array>;
  /** Whether to certify the lock counter with each quote, if the counter was ever incremented. */
  readonly lockCounter?: boolean;
  /** The firmware event log; absent on machines whose firmware does not write one. */
  readonly eventLog?: { readonly files: FilePort; readonly path: string };
}

/** Creates an issuer of TPM evidence. Calls that arrive while the TPM is busy share the next quote. */
export function createTpmIssuer(options: TpmIssuerOptions): Issuer {
  const { tpm, pcrs, lockCounter = false, attestationKeySecret, eventLog } = options;
  const quoter = new BatchQuoter({
    tpm,
    pcrs,
    lockCounter,
    ...(attestationKeySecret === undefined ? {} : { attestationKeySecret }),
    ...(eventLog === undefined ? {} : { attachment: () => readEventLog(eventLog.files, eventLog.path) }),
  });
  return {
    variant: 'tpm',
    issue: async (binding, signal) => {
      checkBinding(binding);
      return encodeTpmEvidence(await quoter.quote(binding, signal));
    },
  };
}

/**
 * Reads the event log; empty if the machine has none or if it is too large to send. Verifiers that require the log then
 * refuse the evidence.
 */
export async function readEventLog(files: FilePort, path: string): Promise<Uint8Array> {
  try {
    return (await files.read(path, MAX_ATTACHED_LOG_BYTES)) ?? new Uint8Array();
  } catch (error) {
    if (findCoded(error)?.code === 'file-too-large') return new Uint8Array();
    throw error;
  }
}
