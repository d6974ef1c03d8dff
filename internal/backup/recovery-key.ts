import { createPrivateKey, hkdfSync } from 'node:crypto';
import { rawX25519, x25519PrivateKey } from '../crypto/index.ts';
import { Secret } from '../secret/index.ts';
import { bech32Decode, bech32Encode } from './bech32.ts';

const PUBLIC_PREFIX = 'age';
const PRIVATE_PREFIX = 'age-secret-key-';
const KEY_BYTES = 32;
const DERIVATION = 'cluster/backup/recovery-key/v1';

/** A key that opens backups: an age identity (X25519). */
export interface RecoveryKey {
  /** The public half as a recipient, "age1…". */
  readonly recipient: string;
  /** Raw X25519 scalar, 32 bytes. */
  readonly secret: Secret<Uint8Array>;
}

/**
 * The recovery key of an owner, derived from the owner key (Ed25519, PKCS#8 PEM) with HKDF-SHA-256, so that a backup and
 * the owner key are enough for a restore.
 */
export function recoveryKeyOfOwner(ownerKeyPem: Secret<string>): RecoveryKey {
  const der = createPrivateKey(ownerKeyPem.reveal()).export({ format: 'der', type: 'pkcs8' });
  const seed = der.subarray(-KEY_BYTES);
  return recoveryKeyFrom(new Uint8Array(hkdfSync('sha256', seed, Buffer.alloc(0), DERIVATION, KEY_BYTES)));
}

/** Parses an age identity, "AGE-SECRET-KEY-1…". @throws BackupError `backup-recipient-invalid` */
export function parseRecoveryKey(text: Secret<string>): RecoveryKey {
  return recoveryKeyFrom(bech32Decode(PRIVATE_PREFIX, text.reveal()));
}

/** The raw public key of a recipient, "age1…". @throws BackupError `backup-recipient-invalid` */
export function parseRecipient(text: string): Uint8Array {
  return bech32Decode(PUBLIC_PREFIX, text);
}

function recoveryKeyFrom(raw: Uint8Array): RecoveryKey {
  const recipient = bech32Encode(PUBLIC_PREFIX, rawX25519(x25519PrivateKey(raw)));
  return { recipient, secret: new Secret(raw) };
}
