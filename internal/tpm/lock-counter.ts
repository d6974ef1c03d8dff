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
 * An NV counter that goes up by one with each lock of the machine. The register that mirrors the lock starts anew with each
 * boot and a disk can be put back; this cannot: the TPM lets nobody set it or turn it back. Whoever has the owner hierarchy
 * can undefine it, but a counter that is defined anew begins above every value that any counter of this TPM ever had
 * (Part 1, 37.2.5). No policy and no authorization value: going up is all that anybody can do to it.
 */
const INDEX = 0x0180636c;
const BYTES = 8;
const AUTH = password();
const DOMAIN = Buffer.from('cluster tpm lock counter v1\0', 'ascii');

/** The index as it must be defined once it counts; verifiers compare its Name. */
export const LOCK_COUNTER: NvPublic = {
  index: INDEX,
  nameHash: 'sha256',
  attributes: COUNTER_ATTRIBUTES | NV_ATTRIBUTE.written,
  authPolicy: new Uint8Array(),
  sizeBytes: BYTES,
};

/** What the certificate signs beside the value: the quote that it goes with, and so that quote's sessions. */
export function lockCounterExtraData(quoteExtraData: Uint8Array): Uint8Array {
  return digestOf('sha256', DOMAIN, quoteExtraData);
}

/** Its value; undefined as long as it has never counted. Throws `tpm-nv-foreign` where somebody else has the index. */
export async function readLockCounter(tpm: TpmConnection, signal: AbortSignal): Promise<bigint | undefined> {
  return (await hasLockCounterValue(tpm, signal)) ? readCounter(tpm, INDEX, AUTH, signal) : undefined;
}

/** Defines it where it is missing, and starts it. `tpm-auth-failed`: the owner hierarchy is closed to the agent. */
export async function startLockCounter(tpm: TpmConnection, signal: AbortSignal): Promise<void> {
  const nv = await readNvPublic(tpm, INDEX, signal);
  if (nv === undefined) return defineCounter(tpm, INDEX, new Uint8Array(), signal);
  checkOurs(nv);
  if ((nv.attributes & NV_ATTRIBUTE.written) === 0) await incrementLockCounter(tpm, signal);
}

export function incrementLockCounter(tpm: TpmConnection, signal: AbortSignal): Promise<void> {
  return incrementCounter(tpm, INDEX, AUTH, signal);
}

/** Whether there is a value to be certified. */
export async function hasLockCounterValue(tpm: TpmConnection, signal: AbortSignal): Promise<boolean> {
  const nv = await readNvPublic(tpm, INDEX, signal);
  if (nv === undefined) return false;
  checkOurs(nv);
  return (nv.attributes & NV_ATTRIBUTE.written) !== 0;
}

/** Its value, certified by the attestation key for the sessions of one quote; the signature in its canonical form. */
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

/** All of it: verifiers compare its Name, and would refuse evidence for a difference that was let pass here. */
function checkOurs(nv: NvPublic): void {
  const { attributes, sizeBytes } = nv;
  const counting = encodeNvPublic({ ...nv, attributes: attributes | NV_ATTRIBUTE.written });
  if (Buffer.compare(counting, encodeNvPublic(LOCK_COUNTER)) !== 0)
    throw new TpmError('tpm-nv-foreign', `using NV index 0x${INDEX.toString(16)} as the lock counter`, {
      details: { attributes: `0x${attributes.toString(16)}`, sizeBytes },
    });
}
