import { digestOf } from './algorithms.ts';
import { password } from './command.ts';
import type { LoadedKey } from './commands/keys.ts';
import { defineCounter, incrementCounter, readCounter, readNvPublic } from './commands/nv.ts';
import { certifyNv, type SignedAttest } from './commands/quote.ts';
import type { TpmConnection } from './connection.ts';
import { TpmError } from './errors.ts';
import { COUNTER_ATTRIBUTES, encodeNvPublic, NV_ATTRIBUTE, type NvPublic } from './structures/nv-public.ts';
import { canonicalSignature, encodeSignature, parseSignature } from './structures/signature.ts';

/**
 * The lock counter: an NV counter of the TPM, incremented each time the machine is locked to a cluster. It never goes
 * back, unlike the lock register (a PCR, which a restart resets) and the disk (which can be restored from a copy). The
 * owner hierarchy can undefine it, but a counter that is defined again starts above every value that any counter of
 * this TPM ever had (Part 1, 37.2.5). It needs no policy and no authorization value, because it can only be
 * incremented.
 */
const INDEX = 0x0180636c;
const BYTES = 8;
const AUTH = password();
const DOMAIN = Buffer.from('cluster tpm lock counter v1\0', 'ascii');

/** The definition of the index after the first increment. Verifiers compare its Name. */
export const LOCK_COUNTER: NvPublic = {
  index: INDEX,
  nameHash: 'sha256',
  attributes: COUNTER_ATTRIBUTES | NV_ATTRIBUTE.written,
  authPolicy: new Uint8Array(),
  sizeBytes: BYTES,
};

/**
 * The extraData in a certificate of the counter. It binds the certificate to one quote, and so to the sessions of the
 * quote.
 */
export function lockCounterExtraData(quoteExtraData: Uint8Array): Uint8Array {
  return digestOf('sha256', DOMAIN, quoteExtraData);
}

/**
 * The value of the counter; undefined if it was never incremented. Throws TpmError `tpm-nv-foreign` if other software
 * uses the index.
 */
export async function readLockCounter(tpm: TpmConnection, signal: AbortSignal): Promise<bigint | undefined> {
  return (await hasLockCounterValue(tpm, signal)) ? readCounter(tpm, INDEX, AUTH, signal) : undefined;
}

/**
 * Defines the counter if it does not exist, and increments it if it was never incremented. Throws TpmError
 * `tpm-auth-failed` if the owner hierarchy has a password.
 */
export async function startLockCounter(tpm: TpmConnection, signal: AbortSignal): Promise<void> {
  const nv = await readNvPublic(tpm, INDEX, signal);
  if (nv === undefined) return defineCounter(tpm, INDEX, new Uint8Array(), signal);
  checkOurs(nv);
  if ((nv.attributes & NV_ATTRIBUTE.written) === 0) await incrementLockCounter(tpm, signal);
}

/** Increments the counter. */
export function incrementLockCounter(tpm: TpmConnection, signal: AbortSignal): Promise<void> {
  return incrementCounter(tpm, INDEX, AUTH, signal);
}

/** Whether the counter was ever incremented: only then can the TPM certify its value. */
export async function hasLockCounterValue(tpm: TpmConnection, signal: AbortSignal): Promise<boolean> {
  const nv = await readNvPublic(tpm, INDEX, signal);
  if (nv === undefined) return false;
  checkOurs(nv);
  return (nv.attributes & NV_ATTRIBUTE.written) !== 0;
}

/** Certifies the value of the counter for one quote, with the attestation key; the signature is in canonical form. */
export async function certifyLockCounter(
  tpm: TpmConnection,
  options: { readonly key: LoadedKey; readonly quoteExtraData: Uint8Array },
  signal: AbortSignal,
): Promise<SignedAttest> {
  const { attest, signature } = await certifyNv(
    tpm,
    {
      key: options.key,
      extraData: lockCounterExtraData(options.quoteExtraData),
      index: INDEX,
      indexAuth: AUTH,
      sizeBytes: BYTES,
      offset: 0,
    },
    signal,
  );
  return { attest, signature: encodeSignature(canonicalSignature(parseSignature(signature), 'p256')) };
}

/**
 * Compares the whole definition of the index. Verifiers compare the Name, which is a hash over the definition, so they
 * would refuse evidence if any field differs.
 */
function checkOurs(nv: NvPublic): void {
  const { attributes, sizeBytes } = nv;
  const counting = encodeNvPublic({ ...nv, attributes: attributes | NV_ATTRIBUTE.written });
  if (Buffer.compare(counting, encodeNvPublic(LOCK_COUNTER)) !== 0)
    throw new TpmError(
      'tpm-nv-foreign',
      `using NV index 0x${INDEX.toString(16)} as the lock counter: its definition differs`,
      {
        details: { attributes: `0x${attributes.toString(16)}`, sizeBytes },
      },
    );
}
