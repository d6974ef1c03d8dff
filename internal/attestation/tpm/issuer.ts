import type { FilePort } from '../../file/index.ts';
import { findCoded } from '../../errors/index.ts';
import type { Secret } from '../../secret/index.ts';
import { BatchQuoter, type Tpm } from '../../tpm/index.ts';
import { checkBinding } from '../appraise.ts';
import type { Issuer } from '../verdict.ts';
import { encodeTpmEvidence } from './evidence.ts';

/** Where Linux shows the firmware's log of the first TPM. */
export const FIRMWARE_EVENT_LOG = '/sys/kernel/security/tpm0/binary_bios_measurements';

/** What fits into one evidence document beside quote, values and proof. */
export const MAX_ATTACHED_LOG_BYTES = 60 * 1024;

export interface TpmIssuerOptions {
  readonly tpm: Tpm;
  readonly pcrs: readonly number[];
  /** Binds the AK to who knows it; see `createAttestationKey`. */
  readonly attestationKeySecret?: Secret<Uint8Array>;
  /** Certifies the lock counter beside each quote, once it has counted. */
  readonly lockCounter?: boolean;
  /** The firmware's event log; evidence has none where a machine has no firmware that writes one. */
  readonly eventLog?: { readonly files: FilePort; readonly path: string };
}

/** Makes TPM evidence on the machine. Callers who ask while the TPM works share the next quote. */
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
 * The log, or nothing when the machine has none or one too large to be sent. A verifier that needs it refuses evidence
 * without it; one that does not is not to fail for it.
 */
export async function readEventLog(files: FilePort, path: string): Promise<Uint8Array> {
  try {
    return (await files.read(path, MAX_ATTACHED_LOG_BYTES)) ?? new Uint8Array();
  } catch (error) {
    if (findCoded(error)?.code === 'file-too-large') return new Uint8Array();
    throw error;
  }
}
