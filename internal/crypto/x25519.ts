import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';

/** RFC 8410: PKCS#8 and SubjectPublicKeyInfo of an X25519 key are these bytes and the raw key. */
const PKCS8_PREFIX = Buffer.from('302e020100300506032b656e04220420', 'hex');
const SPKI_PREFIX = Buffer.from('302a300506032b656e032100', 'hex');

/** A raw X25519 private key for node:crypto. */
export function x25519PrivateKey(raw: Uint8Array): KeyObject {
  return createPrivateKey({ key: Buffer.concat([PKCS8_PREFIX, raw]), format: 'der', type: 'pkcs8' });
}

/** A raw X25519 public key for node:crypto. */
export function x25519PublicKey(raw: Uint8Array): KeyObject {
  return createPublicKey({ key: Buffer.concat([SPKI_PREFIX, raw]), format: 'der', type: 'spki' });
}

/** The raw public half of an X25519 key. */
export function rawX25519(key: KeyObject): Uint8Array {
  const publicKey = key.type === 'private' ? createPublicKey(key) : key;
  return new Uint8Array(publicKey.export({ format: 'der', type: 'spki' }).subarray(SPKI_PREFIX.length));
}
