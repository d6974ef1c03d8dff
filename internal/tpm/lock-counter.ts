import { digestOf } from './algorithms.ts';
import { password } from './command.ts';
import type { LoadedKey } from './commands/keys.ts';
import { certifyNv, type SignedAttest } from './commands/quote.ts';
import type { TpmConnection } from './connection.ts';
import { NvCounter } from './nv-counter.ts';
import { canonicalSignature, encodeSignature, parseSignature } from './structures/signature.ts';

const AUTH = password();
const DOMAIN = Buffer.from('cluster tpm lock counter v1\0', 'ascii');

/** The lock counter, incremented each time the machine is locked to a cluster. */
export const lockCounter = new NvCounter(0x0180636c, 'the lock counter');
/** The definition of the lock counter after the first increment. Verifiers compare its Name. */
export const LOCK_COUNTER = lockCounter.definition;

/**
 * The extraData in a certificate of the counter. It binds the certificate to one quote, and so to the sessions of the
 * quote.
 */
export function lockCounterExtraData(quoteExtraData: Uint8Array): Uint8Array {
  return digestOf('sha256', DOMAIN, quoteExtraData);
}

/** Certifies the value of the counter for one quote, with the attestation key; the signature is in canonical form. */
export async function certifyLockCounter(
  tpm: TpmConnection,
  options: { readonly key: LoadedKey; readonly quoteExtraData: Uint8Array },
  signal: AbortSignal,
): Promise<SignedAttest> {
  const { key, quoteExtraData } = options;
  const { attest, signature } = await certifyNv(
    tpm,
    { key, extraData: lockCounterExtraData(quoteExtraData), nv: LOCK_COUNTER, indexAuth: AUTH },
    signal,
  );
  return { attest, signature: encodeSignature(canonicalSignature(parseSignature(signature), 'p256')) };
}
