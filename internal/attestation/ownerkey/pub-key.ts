import { createPublicKey, type KeyObject } from 'node:crypto';
import { OWNER_PUB_KEY_BYTES } from './evidence.ts';
import { OwnerKeyError } from './errors.ts';

/** RFC 8410 §4: the DER that stands before a raw Ed25519 public key in a SubjectPublicKeyInfo. */
const SPKI_PREFIX = Buffer.from('302a300506032b6570032100', 'hex');

/**
 * Points of small order and their other encodings (all of "Taming the many EdDSAs", SSR 2020, table 1). Under such
 * a key anybody can sign, and one of them is 32 zero bytes: a provisioning template that nobody filled in. OpenSSL 3.5
 * would not verify with them, others do; here the machine says at start what is wrong with its provisioning.
 */
const SMALL_ORDER: ReadonlySet<string> = new Set([
  '0100000000000000000000000000000000000000000000000000000000000000',
  '0100000000000000000000000000000000000000000000000000000000000080',
  '0000000000000000000000000000000000000000000000000000000000000000',
  '0000000000000000000000000000000000000000000000000000000000000080',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff',
  'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff',
  'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa',
]);

/** A raw 32-byte Ed25519 public key as a key, or `owner-key-invalid`. */
export function ownerPubKeyFromRaw(raw: Uint8Array): KeyObject {
  const hex = Buffer.from(raw).toString('hex');
  if (raw.length !== OWNER_PUB_KEY_BYTES || SMALL_ORDER.has(hex)) {
    throw new OwnerKeyError('owner-key-invalid', `reading owner key ${JSON.stringify(hex)}`);
  }
  return createPublicKey({ key: Buffer.concat([SPKI_PREFIX, raw]), format: 'der', type: 'spki' });
}

/** The raw 32 bytes of an Ed25519 public key (or of the public half of a private one), or `owner-key-invalid`. */
export function rawFromOwnerKey(key: KeyObject): Uint8Array {
  if (key.asymmetricKeyType !== 'ed25519') {
    throw new OwnerKeyError(
      'owner-key-invalid',
      `reading owner key: it is ${key.asymmetricKeyType ?? 'no key pair'}`,
    );
  }
  const pubKey = key.type === 'private' ? createPublicKey(key) : key;
  return pubKey.export({ format: 'der', type: 'spki' }).subarray(SPKI_PREFIX.length);
}
