import { sign, type KeyObject } from 'node:crypto';
import { ED25519_KEY_BYTES, ED25519_SIGNATURE_BYTES } from '../crypto/index.ts';
import type { Secret } from '../secret/index.ts';
import { checkBinding } from './appraise.ts';
import type { Issuer, Variant } from './verdict.ts';

const VERSION = 1;
const EVIDENCE_BYTES = 1 + ED25519_KEY_BYTES + ED25519_SIGNATURE_BYTES;

/**
 * Evidence that its sender holds an Ed25519 key, 97 bytes: version u8 (1), public key (32), signature (64). The public
 * key is included because a verifier may accept several keys.
 */
export interface KeyEvidence {
  /** Raw Ed25519 public key, 32 bytes. */
  readonly pubKey: Uint8Array;
  readonly signature: Uint8Array;
}

/** Proves that one end holds an Ed25519 key: a signature over the binding of the session. */
export class KeyIssuer implements Issuer {
  readonly variant: Variant;
  readonly #options: KeyIssuerOptions;

  constructor(variant: Variant, options: KeyIssuerOptions) {
    this.variant = variant;
    this.#options = options;
  }

  issue(binding: Uint8Array, signal: AbortSignal): Promise<Uint8Array> {
    return Promise.try(() => {
      signal.throwIfAborted();
      checkBinding(binding);
      const { label, privKey, pubKey } = this.#options;
      const signature = sign(null, keyEvidenceMessage(label, binding), privKey.reveal());
      return Buffer.concat([Uint8Array.of(VERSION), pubKey, signature]);
    });
  }
}

interface KeyIssuerOptions {
  /**
   * Start of the signed message; ends with \0. So a signature that the key made for another purpose is not valid here.
   */
  readonly label: string;
  readonly privKey: Secret<KeyObject>;
  /** The public half of `privKey`: raw, 32 bytes. */
  readonly pubKey: Uint8Array;
}

/** Parses the peer's evidence. Throws the error that `malformed` creates. */
export function parseKeyEvidence(
  bytes: Uint8Array,
  malformed: (compared: { readonly expected: string; readonly actual: string }) => Error,
): KeyEvidence {
  if (bytes.length !== EVIDENCE_BYTES || bytes[0] !== VERSION)
    throw malformed({
      expected: `${EVIDENCE_BYTES} bytes of version ${VERSION}`,
      actual: `${bytes.length} bytes of version ${bytes[0] ?? 'none'}`,
    });
  return {
    pubKey: bytes.subarray(1, 1 + ED25519_KEY_BYTES),
    signature: bytes.subarray(1 + ED25519_KEY_BYTES),
  };
}

/** The bytes that the signature covers. */
export function keyEvidenceMessage(label: string, binding: Uint8Array): Uint8Array {
  return Buffer.concat([Buffer.from(label, 'ascii'), binding]);
}
