import { createECDH, createPrivateKey, ECDH, hkdfSync, type KeyObject } from 'node:crypto';
import { P256_ORDER } from '../crypto/index.ts';
import type { Secret } from '../secret/index.ts';

const DERIVATION = 'cluster/state-disk/approval-key/v1';
const CURVE = 'prime256v1';
const SEED_BYTES = 32;
/** 16 bytes more than the order of the curve, so that the remainder is as good as uniform (FIPS 186-5, A.2.1). */
const WIDE_BYTES = 48;
const COMPRESSED_BYTES = 33;

/** The key with which an owner approves registers of state disks. A TPM does not verify Ed25519, so it is one on P-256. */
export interface ApprovalKey {
  /** The public half as in the provisioning: the compressed point (SEC 1, 2.3.3), base64. */
  readonly publicKey: string;
  readonly privateKey: KeyObject;
}

/** The approval key of an owner, derived from the owner key (Ed25519, PKCS#8 PEM) with HKDF-SHA-256, like the recovery key. */
export function approvalKeyOfOwner(ownerKeyPem: Secret<string>): ApprovalKey {
  const der = createPrivateKey(ownerKeyPem.reveal()).export({ format: 'der', type: 'pkcs8' });
  const wide = hkdfSync('sha256', der.subarray(-SEED_BYTES), Buffer.alloc(0), DERIVATION, WIDE_BYTES);
  const scalar = (BigInt(`0x${Buffer.from(wide).toString('hex')}`) % (P256_ORDER - 1n)) + 1n;
  const ecdh = createECDH(CURVE);
  ecdh.setPrivateKey(Buffer.from(scalar.toString(16).padStart(2 * SEED_BYTES, '0'), 'hex'));
  const point = ecdh.getPublicKey().subarray(1);
  const [x, y] = [base64Url(point.subarray(0, 32)), base64Url(point.subarray(32))];
  const key = { kty: 'EC', crv: 'P-256', x, y, d: base64Url(ecdh.getPrivateKey()) };
  return {
    publicKey: ecdh.getPublicKey('base64', 'compressed'),
    privateKey: createPrivateKey({ key, format: 'jwk' }),
  };
}

/** Parses the public half: x and y, 32 bytes each; undefined for any other text. */
export function parseApprovalKey(text: string): Uint8Array | undefined {
  const compressed = Buffer.from(text, 'base64');
  if (compressed.length !== COMPRESSED_BYTES || compressed.toString('base64') !== text) return undefined;
  try {
    const point = ECDH.convertKey(compressed, CURVE, undefined, undefined, 'uncompressed');
    return new Uint8Array(Buffer.from(point).subarray(1));
  } catch {
    return undefined; // not a point of the curve
  }
}

function base64Url(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64url');
}
