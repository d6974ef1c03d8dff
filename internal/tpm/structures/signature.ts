import { constants, verify, type KeyObject } from 'node:crypto';
import { ALG, CURVES, hashId, hashName, type CurveName, type HashName } from '../algorithms.ts';
import { malformed } from '../errors.ts';
import { hex, WireReader, WireWriter } from '../wire.ts';
import type { TpmKey } from './public.ts';

/** A signature that an attestation key made (TPMT_SIGNATURE). */
export type TpmSignature =
  | { readonly algorithm: 'ecdsa'; readonly hash: HashName; readonly r: Uint8Array; readonly s: Uint8Array }
  | { readonly algorithm: 'rsassa' | 'rsapss'; readonly hash: HashName; readonly signature: Uint8Array };

/** Parses one TPMT_SIGNATURE. Throws TpmError `tpm-malformed`, also for SHA-1, the null signature and other schemes. */
export function parseSignature(bytes: Uint8Array): TpmSignature {
  const reader = new WireReader(bytes, 'a signature');
  const id = reader.u16('signature algorithm');
  const algorithm =
    id === ALG.ecdsa ? 'ecdsa' : id === ALG.rsassa ? 'rsassa' : id === ALG.rsapss ? 'rsapss' : undefined;
  if (algorithm === undefined) throw reader.fail('signature algorithm', 'ECDSA, RSASSA or RSAPSS', hex(id));
  const hash = hashName(reader.u16('signature hash'), 'signature hash');
  const signature: TpmSignature =
    algorithm === 'ecdsa'
      ? { algorithm, hash, r: reader.sized('r', 66), s: reader.sized('s', 66) }
      : { algorithm, hash, signature: reader.sized('signature', 512) };
  reader.end();
  return signature;
}

/** Encodes TPMT_SIGNATURE. */
export function encodeSignature(signature: TpmSignature): Uint8Array {
  const id = ALG[signature.algorithm];
  const writer = new WireWriter().u16(id).u16(hashId(signature.hash));
  return signature.algorithm === 'ecdsa'
    ? writer.sized(signature.r).sized(signature.s).finish()
    : writer.sized(signature.signature).finish();
}

/**
 * Converts an ECDSA signature into the canonical form that evidence must have: r and s padded to the size of the curve,
 * s in the lower half. TPMs strip leading zeros and may return a high s. If (r, s) is a valid signature, anybody can
 * compute a second one, (r, n - s); only one of the two is accepted.
 */
export function canonicalSignature(signature: TpmSignature, curve: CurveName): TpmSignature {
  if (signature.algorithm !== 'ecdsa') return signature;
  const { order, sizeBytes } = CURVES[curve];
  const [r, s] = [bigintOf(signature.r), bigintOf(signature.s)];
  if (r === 0n || s === 0n || r >= order || s >= order) throw malformed('a signature: r or s out of range');
  const low = s > order / 2n ? order - s : s;
  return { ...signature, r: bytesOf(r, sizeBytes), s: bytesOf(low, sizeBytes) };
}

/** Whether a signature by this key is in canonical form. */
export function isCanonical(signature: TpmSignature, key: TpmKey): boolean {
  if (signature.algorithm !== 'ecdsa' || key.kind !== 'ecc') {
    return (
      signature.algorithm !== 'ecdsa' && key.kind === 'rsa' && signature.signature.length === key.bits / 8
    );
  }
  const { order, sizeBytes } = CURVES[key.curve];
  const s = bigintOf(signature.s);
  const r = bigintOf(signature.r);
  return (
    signature.r.length === sizeBytes &&
    signature.s.length === sizeBytes &&
    r > 0n &&
    r < order &&
    s > 0n &&
    s <= order / 2n
  );
}

/** Whether this key signed these bytes. The caller checks what the bytes mean. */
export function isSignedBy(key: KeyObject, signature: TpmSignature, signed: Uint8Array): boolean {
  // Verifies the DER form, because node:crypto takes a third longer for a signature in IEEE P1363 form.
  if (signature.algorithm === 'ecdsa') return verify(signature.hash, signed, key, derOf(signature));
  const padding =
    signature.algorithm === 'rsassa'
      ? { padding: constants.RSA_PKCS1_PADDING }
      : { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: constants.RSA_PSS_SALTLEN_AUTO };
  return verify(signature.hash, signed, { key, ...padding }, signature.signature);
}

/** ECDSA-Sig-Value (RFC 3279 §2.2.3) with both numbers in their shortest form, less than 128 bytes in all. */
function derOf({ r, s }: { readonly r: Uint8Array; readonly s: Uint8Array }): Uint8Array {
  const numbers = Buffer.concat([derInteger(r), derInteger(s)]);
  return Buffer.concat([Buffer.of(0x30, numbers.length), numbers]);
}

function derInteger(value: Uint8Array): Uint8Array {
  const first = value.findIndex((byte) => byte !== 0);
  const short = first < 0 ? Buffer.alloc(1) : value.subarray(first);
  const sign = (short[0] ?? 0) < 0x80 ? [] : [0];
  return Buffer.concat([Buffer.of(0x02, short.length + sign.length, ...sign), short]);
}

function bigintOf(bytes: Uint8Array): bigint {
  return BigInt(`0x0${Buffer.from(bytes).toString('hex')}`);
}

function bytesOf(value: bigint, sizeBytes: number): Uint8Array {
  return new Uint8Array(Buffer.from(value.toString(16).padStart(sizeBytes * 2, '0'), 'hex'));
}
