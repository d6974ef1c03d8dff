import { createPublicKey, type KeyObject } from 'node:crypto';

/** RFC 5480: the DER of a P-256 SubjectPublicKeyInfo with a named curve, up to and including the 0x04 of the point. */
export const P256_SPKI_PREFIX = Buffer.from('3059301306072a8648ce3d020106082a8648ce3d03010703420004', 'hex');
/** Size of a P-256 SubjectPublicKeyInfo: the prefix, then the coordinates x and y of 32 bytes each. */
export const P256_SPKI_BYTES = P256_SPKI_PREFIX.length + 64;

/** Group order of P-256 (FIPS 186-5): signatures and private keys are numbers from 1 to the order - 1. */
export const P256_ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
/** Group order of P-384. */
export const P384_ORDER =
  0xffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973n;

/** A P-256 public key from its coordinates x and y (32 bytes each). Throws when the point is not on the curve. */
export function p256KeyFromPoint(xy: Uint8Array): KeyObject {
  return createPublicKey({ key: Buffer.concat([P256_SPKI_PREFIX, xy]), format: 'der', type: 'spki' });
}

/** The longest SubjectPublicKeyInfo that a peer may send. */
export const MAX_SPKI_BYTES = 256;

/**
 * A P-256 public key that a peer chose, from its SubjectPublicKeyInfo (DER). node:crypto refuses points that are not on the curve.
 * @throws RangeError for other keys
 */
export function p256KeyFrom(spkiDer: Uint8Array): KeyObject {
  if (spkiDer.length > MAX_SPKI_BYTES)
    throw new RangeError(`a public key has at most ${MAX_SPKI_BYTES} bytes, not ${spkiDer.length}`);
  let key: KeyObject;
  try {
    key = createPublicKey({ key: Buffer.from(spkiDer), format: 'der', type: 'spki' });
  } catch (error) {
    throw new RangeError('malformed public key', { cause: error });
  }
  if (key.asymmetricKeyType !== 'ec' || key.asymmetricKeyDetails?.namedCurve !== 'prime256v1')
    throw new RangeError('not a P-256 key');
  return key;
}
