/**
 * A message that only the holder of one P-256 private key can read. A message of HPKE (RFC 9180) has `encapsulatedKey`;
 * its `ephemeralPublicKey` and `nonce` are empty. A message of the first format (sealed-v1.ts) has `ephemeralPublicKey`
 * and `nonce`; its `encapsulatedKey` is empty.
 */
export interface Sealed {
  /** HPKE: 65 bytes, an uncompressed point of P-256. First format: empty. */
  readonly encapsulatedKey: Uint8Array;
  /** First format: SubjectPublicKeyInfo, DER, of the key that was generated for this message. HPKE: empty. */
  readonly ephemeralPublicKey: Uint8Array;
  /** First format: 12 bytes. HPKE: empty. */
  readonly nonce: Uint8Array;
  /** AES-256-GCM: the text, then the tag of 16 bytes. */
  readonly ciphertext: Uint8Array;
}

/** The purpose and the recipient of a sealed message. `unseal()` fails unless it is given the same context. */
export interface SealContext {
  readonly kind: 'control-plane-keys';
  readonly clusterId: string;
  readonly nodeId: string;
}
