import { OwnerKeyError } from './errors.ts';

export const OWNER_PUB_KEY_BYTES = 32;
const SIGNATURE_BYTES = 64;
const VERSION = 1;

/**
 * The evidence document, 97 bytes: version u8 (1), public key (32), signature (64).
 * The key is named so that a machine with several owners knows which one called.
 */
export interface OwnerKeyEvidence {
  readonly pubKey: Uint8Array;
  readonly signature: Uint8Array;
}

export function encodeOwnerKeyEvidence(document: OwnerKeyEvidence): Uint8Array {
  return Buffer.concat([Uint8Array.of(VERSION), document.pubKey, document.signature]);
}

export function parseOwnerKeyEvidence(bytes: Uint8Array): OwnerKeyEvidence {
  const wantBytes = 1 + OWNER_PUB_KEY_BYTES + SIGNATURE_BYTES;
  if (bytes.length !== wantBytes || bytes[0] !== VERSION) {
    throw new OwnerKeyError('owner-key-malformed', 'reading owner-key evidence', {
      expected: `${wantBytes} bytes of version ${VERSION}`,
      actual: `${bytes.length} bytes of version ${bytes[0] ?? 'none'}`,
    });
  }
  return {
    pubKey: bytes.subarray(1, 1 + OWNER_PUB_KEY_BYTES),
    signature: bytes.subarray(1 + OWNER_PUB_KEY_BYTES),
  };
}

/** What the owner signs. The prefix keeps the key's signatures apart from all its others (directories, epochs). */
export function signedMessage(binding: Uint8Array): Uint8Array {
  return Buffer.concat([Buffer.from('cluster owner-key evidence v1\0', 'ascii'), binding]);
}
