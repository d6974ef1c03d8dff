import type { KeyObject } from 'node:crypto';
import {
  ED25519_KEY_BYTES,
  ed25519KeyFromRaw,
  isSmallOrderEd25519Key,
  rawFromEd25519Key,
} from '../../crypto/index.ts';
import { OwnerKeyError } from './errors.ts';

/** An owner's raw 32-byte Ed25519 public key for node:crypto. Throws OwnerKeyError `owner-key-invalid`. */
export function ownerPubKeyFromRaw(raw: Uint8Array): KeyObject {
  if (raw.length !== ED25519_KEY_BYTES || isSmallOrderEd25519Key(raw)) {
    const hex = Buffer.from(raw).toString('hex');
    throw new OwnerKeyError('owner-key-invalid', `reading owner key ${JSON.stringify(hex)}`);
  }
  return ed25519KeyFromRaw(raw);
}

/**
 * The raw 32 bytes of an owner's public key, or of the public half of its private key. Throws OwnerKeyError
 * `owner-key-invalid` for other kinds of key.
 */
export function rawFromOwnerKey(key: KeyObject): Uint8Array {
  if (key.asymmetricKeyType !== 'ed25519') {
    const kind = key.asymmetricKeyType ?? 'a secret key';
    throw new OwnerKeyError('owner-key-invalid', `reading the owner key: Ed25519 expected, found ${kind}`);
  }
  return rawFromEd25519Key(key);
}
