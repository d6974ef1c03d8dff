import { constants, verify } from 'node:crypto';
import { P256_ORDER, P384_ORDER } from '../../crypto/index.ts';
import { parseInteger, readOnly, TAG } from '../asn1/index.ts';
import type { SignatureAlgorithm } from './algorithm.ts';
import { withX509Errors, X509Error } from './errors.ts';
import type { PublicKey, PublicKeyKind } from './public-key.ts';

/** A signed part of a document, and its signature. */
export interface SignedBytes {
  readonly algorithm: SignatureAlgorithm;
  readonly signed: Uint8Array;
  readonly signature: Uint8Array;
}

/** Size of r and s; both are at least 1 and below the group order (FIPS 186-5). */
const CURVES: Readonly<
  Partial<Record<PublicKeyKind, { readonly scalarBytes: number; readonly order: bigint }>>
> = {
  p256: { scalarBytes: 32, order: P256_ORDER },
  p384: { scalarBytes: 48, order: P384_ORDER },
};

/** Verifies the signature of a certificate or CRL; `what` names the document. Throws X509Error `x509-signature`. */
export function verifySignature(document: SignedBytes, key: PublicKey, what: string): void {
  const isRight = withX509Errors(`verifying ${what}`, () => isSignatureRight(document, key));
  if (!isRight) {
    throw new X509Error('x509-signature', `verifying ${what}: the signature does not match`);
  }
}

/**
 * Whether `signature` (r then s, big endian, each as long as a coordinate) is valid. Zero and values that are not below the
 * group order are refused before node:crypto gets them.
 */
export function isEcdsaSignatureValid(
  key: Pick<PublicKey, 'kind' | 'key'>,
  hash: 'sha256' | 'sha384' | 'sha512',
  signed: Uint8Array,
  signature: Uint8Array,
): boolean {
  const curve = CURVES[key.kind];
  if (curve === undefined || signature.length !== 2 * curve.scalarBytes) return false;
  const r = unsigned(signature.subarray(0, curve.scalarBytes));
  const s = unsigned(signature.subarray(curve.scalarBytes));
  if (r === 0n || s === 0n || r >= curve.order || s >= curve.order) return false;
  return verify(hash, signed, { key: key.key, dsaEncoding: 'ieee-p1363' }, signature);
}

function isSignatureRight({ algorithm, signed, signature }: SignedBytes, key: PublicKey): boolean {
  switch (algorithm.kind) {
    case 'rsa-pkcs1':
      return key.kind === 'rsa' && verify(algorithm.hash, signed, key.key, signature);
    case 'rsa-pss':
      return (
        key.kind === 'rsa' &&
        verify(
          algorithm.hash,
          signed,
          { key: key.key, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: algorithm.saltBytes },
          signature,
        )
      );
    case 'ecdsa':
      return isDerEcdsaRight({ algorithm, signed, signature }, key);
    case 'ed25519':
      return key.kind === 'ed25519' && verify(null, signed, key.key, signature);
  }
}

function isDerEcdsaRight({ algorithm, signed, signature }: SignedBytes, key: PublicKey): boolean {
  const curve = CURVES[key.kind];
  if (curve === undefined || algorithm.kind !== 'ecdsa') return false;
  const scalars = readOnly(signature, TAG.sequence, (pair) => [
    parseInteger(pair.read(TAG.integer)),
    parseInteger(pair.read(TAG.integer)),
  ]);
  if (scalars.some((scalar) => scalar <= 0n || scalar >= curve.order)) return false;
  const digits = scalars.map((scalar) => scalar.toString(16).padStart(2 * curve.scalarBytes, '0')).join('');
  return isEcdsaSignatureValid(key, algorithm.hash, signed, Buffer.from(digits, 'hex'));
}

function unsigned(bytes: Uint8Array): bigint {
  return BigInt(`0x${Buffer.from(bytes).toString('hex')}`);
}
