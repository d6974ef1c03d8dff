import { createHash } from 'node:crypto';
import { malformed } from './errors.ts';
import { hex } from './wire.ts';

/** TPM_ALG_ID (TCG Algorithm Registry): the algorithms that this project uses or must recognize. */
export const ALG = {
  rsa: 0x0001,
  sha1: 0x0004,
  hmac: 0x0005,
  aes: 0x0006,
  keyedHash: 0x0008,
  sha256: 0x000b,
  sha384: 0x000c,
  sha512: 0x000d,
  null: 0x0010,
  rsassa: 0x0014,
  rsapss: 0x0016,
  ecdsa: 0x0018,
  ecc: 0x0023,
  cfb: 0x0043,
} as const;

/** Accepted hash algorithms. `ALG` has a number for SHA-1 only so that an error can name it. */
export type HashName = 'sha256' | 'sha384' | 'sha512';

const HASHES: readonly { readonly id: number; readonly name: HashName; readonly sizeBytes: number }[] = [
  { id: ALG.sha256, name: 'sha256', sizeBytes: 32 },
  { id: ALG.sha384, name: 'sha384', sizeBytes: 48 },
  { id: ALG.sha512, name: 'sha512', sizeBytes: 64 },
];

/**
 * The accepted hash with this TPM_ALG_ID. `field` is the name of the parsed field in the error. Throws TpmError
 * `tpm-malformed`.
 */
export function hashName(id: number, field: string): HashName {
  const found = HASHES.find((each) => each.id === id);
  if (found === undefined) throw notAccepted(field, 'SHA-256, SHA-384 or SHA-512', id);
  return found.name;
}

/** The TPM_ALG_ID of a hash. */
export function hashId(name: HashName): number {
  return ALG[name];
}

/** The digest size of a hash. */
export function hashSizeBytes(name: HashName): number {
  return name === 'sha256' ? 32 : name === 'sha384' ? 48 : 64;
}

/** The digest over the concatenation of the parts. */
export function digestOf(name: HashName, ...parts: readonly Uint8Array[]): Uint8Array {
  const hash = createHash(name);
  for (const part of parts) hash.update(part);
  return new Uint8Array(hash.digest());
}

/** Accepted ECC curves. */
export type CurveName = 'p256' | 'p384';

/** The TPM_ECC_CURVE id, coordinate size and group order of each curve. */
export const CURVES: Readonly<
  Record<CurveName, { readonly id: number; readonly sizeBytes: number; readonly order: bigint }>
> = {
  p256: {
    id: 0x0003,
    sizeBytes: 32,
    order: 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n,
  },
  p384: {
    id: 0x0004,
    sizeBytes: 48,
    order:
      0xffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973n,
  },
};

/**
 * The accepted curve with this TPM_ECC_CURVE id. `field` is the name of the parsed field in the error. Throws TpmError
 * `tpm-malformed`.
 */
export function curveName(id: number, field: string): CurveName {
  if (id === CURVES.p256.id) return 'p256';
  if (id === CURVES.p384.id) return 'p384';
  throw notAccepted(field, 'P-256 or P-384', id);
}

function notAccepted(field: string, expected: string, id: number): Error {
  return malformed(`${field}: ${hex(id)} is not accepted`, { field, expected, actual: hex(id) });
}
