import { createHash, sign, type KeyObject } from 'node:crypto';
import {
  ED25519_KEY_BYTES,
  ED25519_SIGNATURE_BYTES,
  ED25519_SPKI_BYTES,
  ed25519SpkiFromRaw,
  isSignedByEd25519Key,
  isSmallOrderEd25519Key,
  rawFromEd25519Key,
} from '../../crypto/index.ts';
import type { Secret } from '../../secret/index.ts';
import { equalBytes, toHex } from '../bytes.ts';
import { MachineKeyError } from './errors.ts';

/** Proof that the peer in one session holds a key. */
export interface KeyProof {
  /** SubjectPublicKeyInfo, DER. */
  readonly publicKey: Uint8Array;
  /** Ed25519 signature over label, 0x00 and session, 64 bytes. */
  readonly signature: Uint8Array;
}

/**
 * Signs `session`, which is `peer.session` of attested TLS (docs/atls.md §4). `label` names the purpose, so that the
 * proof is not valid for another purpose of the key.
 */
export function proveKey(label: string, session: Uint8Array, privKey: Secret<KeyObject>): KeyProof {
  const key = privKey.reveal();
  const publicKey = ed25519SpkiFromRaw(rawFromEd25519Key(key));
  return { publicKey, signature: sign(null, messageOf(label, session), key) };
}

/** Verifies the peer's proof and returns the fingerprint ("sha256:HEX") of its key. Throws MachineKeyError. */
export function verifyKeyProof(label: string, session: Uint8Array, proof: KeyProof): string {
  const { publicKey, signature } = proof;
  if (publicKey.length !== ED25519_SPKI_BYTES || signature.length !== ED25519_SIGNATURE_BYTES)
    throw new MachineKeyError('machine-key-malformed', 'reading the proof of a machine key', {
      expected: `${ED25519_SPKI_BYTES} and ${ED25519_SIGNATURE_BYTES} bytes`,
      actual: `${publicKey.length} and ${signature.length} bytes`,
    });
  const raw = publicKey.subarray(-ED25519_KEY_BYTES);
  // Each key has exactly one encoding, and keys with which anybody can sign are refused.
  if (!equalBytes(ed25519SpkiFromRaw(raw), publicKey) || isSmallOrderEd25519Key(raw))
    throw new MachineKeyError('machine-key-malformed', 'reading the proof of a machine key', {
      expected: 'an Ed25519 key',
      actual: toHex(publicKey),
    });
  if (!isSignedByEd25519Key(publicKey, messageOf(label, session), signature))
    throw new MachineKeyError('machine-key-signature', 'verifying the proof of a machine key');
  return `sha256:${createHash('sha256').update(publicKey).digest('hex')}`;
}

function messageOf(label: string, session: Uint8Array): Uint8Array {
  return Buffer.concat([Buffer.from(`${label}\0`, 'ascii'), session]);
}
