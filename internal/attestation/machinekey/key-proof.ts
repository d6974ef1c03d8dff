import { createHash, createPublicKey, sign, verify, type KeyObject } from 'node:crypto';
import type { Secret } from '../../secret/index.ts';
import { toHex } from '../bytes.ts';
import { ownerPubKeyFromRaw, OwnerKeyError } from '../ownerkey/index.ts';
import { MachineKeyError } from './errors.ts';

/** That the end of this very session holds a key: SubjectPublicKeyInfo (DER) and Ed25519 over label, 0x00 and session. */
export interface KeyProof {
  readonly publicKey: Uint8Array;
  readonly signature: Uint8Array;
}

/** `SubjectPublicKeyInfo` of an Ed25519 key (RFC 8410): always this long. */
const SPKI_BYTES = 44;
const RAW_BYTES = 32;
const SIGNATURE_BYTES = 64;

/** `session`: `peer.session` of attested TLS (docs/atls.md §4). The label keeps one use of the key from another. */
export function proveKey(label: string, session: Uint8Array, privKey: Secret<KeyObject>): KeyProof {
  const key = privKey.reveal();
  const publicKey = createPublicKey(key).export({ type: 'spki', format: 'der' });
  return { publicKey, signature: sign(null, messageOf(label, session), key) };
}

/** The fingerprint ("sha256:HEX") of the key that was proved; throws a `MachineKeyError`. All of the proof is the peer's. */
export function verifyKeyProof(label: string, session: Uint8Array, proof: KeyProof): string {
  const { publicKey, signature } = proof;
  if (publicKey.length !== SPKI_BYTES || signature.length !== SIGNATURE_BYTES) {
    throw new MachineKeyError('machine-key-malformed', 'reading the proof of a machine key', {
      expected: `${SPKI_BYTES} and ${SIGNATURE_BYTES} bytes`,
      actual: `${publicKey.length} and ${signature.length} bytes`,
    });
  }
  if (!verify(null, messageOf(label, session), readKey(publicKey), signature)) {
    throw new MachineKeyError('machine-key-signature', 'verifying the proof of a machine key');
  }
  return `sha256:${createHash('sha256').update(publicKey).digest('hex')}`;
}

/** One spelling per key, and none under which anybody can sign. */
function readKey(spki: Uint8Array): KeyObject {
  try {
    const key = ownerPubKeyFromRaw(spki.subarray(-RAW_BYTES));
    if (Buffer.compare(key.export({ type: 'spki', format: 'der' }), spki) === 0) return key;
  } catch (error) {
    if (!(error instanceof OwnerKeyError)) throw error;
  }
  throw new MachineKeyError('machine-key-malformed', 'reading the proof of a machine key', {
    expected: 'an Ed25519 key',
    actual: toHex(spki),
  });
}

function messageOf(label: string, session: Uint8Array): Uint8Array {
  return Buffer.concat([Buffer.from(`${label}\0`, 'ascii'), session]);
}
