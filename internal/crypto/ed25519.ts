import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  sign,
  verify,
  type KeyObject,
} from 'node:crypto';
import { Secret } from '../secret/index.ts';

/** Size of a raw Ed25519 public key (RFC 8032). */
export const ED25519_KEY_BYTES = 32;
/** Size of an Ed25519 signature (RFC 8032). */
export const ED25519_SIGNATURE_BYTES = 64;

/** RFC 8410 §4: a SubjectPublicKeyInfo of an Ed25519 key is these bytes and the raw key. */
const SPKI_PREFIX = Buffer.from('302a300506032b6570032100', 'hex');
/**
 * All encodings of points of small order ("Taming the many EdDSAs", SSR 2020, table 1). Anybody can sign under such a
 * key. One of them is 32 zero bytes, as in a configuration template that nobody filled in. OpenSSL 3.5 refuses them,
 * other libraries do not.
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

/** Size of a SubjectPublicKeyInfo with an Ed25519 key, DER. */
export const ED25519_SPKI_BYTES = SPKI_PREFIX.length + ED25519_KEY_BYTES;

/** Generates an Ed25519 private key, PKCS#8 PEM. */
export function generateEd25519Key(): Secret<string> {
  const { privateKey } = generateKeyPairSync('ed25519');
  return new Secret(privateKey.export({ format: 'pem', type: 'pkcs8' }).toString());
}

/** The SubjectPublicKeyInfo (DER) of a raw public key. Throws RangeError unless the key has 32 bytes. */
export function ed25519SpkiFromRaw(raw: Uint8Array): Uint8Array {
  if (raw.length !== ED25519_KEY_BYTES)
    throw new RangeError(`an Ed25519 public key has ${ED25519_KEY_BYTES} bytes, not ${raw.length}`);
  return Buffer.concat([SPKI_PREFIX, raw]);
}

/** The raw public key in a SubjectPublicKeyInfo (DER, RFC 8410). Throws RangeError for other kinds of key. */
export function rawFromEd25519Spki(spkiDer: Uint8Array): Uint8Array {
  if (spkiDer.length !== ED25519_SPKI_BYTES || SPKI_PREFIX.compare(spkiDer, 0, SPKI_PREFIX.length) !== 0)
    throw new RangeError('not the SubjectPublicKeyInfo of an Ed25519 key');
  return spkiDer.subarray(SPKI_PREFIX.length);
}

/** Whether a raw public key is a point of small order, under which anybody can sign. */
export function isSmallOrderEd25519Key(raw: Uint8Array): boolean {
  return SMALL_ORDER.has(Buffer.from(raw).toString('hex'));
}

/** A raw public key for node:crypto. Throws RangeError unless the key has 32 bytes. */
export function ed25519KeyFromRaw(raw: Uint8Array): KeyObject {
  return createPublicKey({ key: Buffer.from(ed25519SpkiFromRaw(raw)), format: 'der', type: 'spki' });
}

/** The raw 32 bytes of a public key, or of the public half of a private key. Throws TypeError for other kinds of key. */
export function rawFromEd25519Key(key: KeyObject): Uint8Array {
  if (key.asymmetricKeyType !== 'ed25519')
    throw new TypeError(`not an Ed25519 key but ${key.asymmetricKeyType ?? 'a secret key'}`);
  const publicKey = key.type === 'private' ? createPublicKey(key) : key;
  return new Uint8Array(publicKey.export({ format: 'der', type: 'spki' }).subarray(SPKI_PREFIX.length));
}

/** The raw public half of a private key in PKCS#8 PEM; undefined when the text is not an Ed25519 private key. */
export function ed25519PubKeyFrom(keyPem: Secret<string>): Uint8Array | undefined {
  const key = privateKeyFrom(keyPem);
  return key?.asymmetricKeyType === 'ed25519' ? rawFromEd25519Key(key) : undefined;
}

/** Signs with a private key in PKCS#8 PEM. Returns 64 bytes. */
export function signEd25519(keyPem: Secret<string>, statement: Uint8Array): Uint8Array {
  return new Uint8Array(sign(undefined, statement, keyPem.reveal()));
}

/**
 * Whether an Ed25519 key made a signature over `signed`.
 * @param pubKeyDer SubjectPublicKeyInfo, chosen by the peer: false for every other kind of key and for malformed bytes
 */
export function isSignedByEd25519Key(
  pubKeyDer: Uint8Array,
  signed: Uint8Array,
  signature: Uint8Array,
): boolean {
  if (pubKeyDer.length !== ED25519_SPKI_BYTES || signature.length !== ED25519_SIGNATURE_BYTES) return false;
  try {
    const key = createPublicKey({ key: Buffer.from(pubKeyDer), format: 'der', type: 'spki' });
    return key.asymmetricKeyType === 'ed25519' && verify(undefined, signed, key, signature);
  } catch {
    return false; // the bytes are not a public key
  }
}

/** Like `isSignedByEd25519Key()` for a raw public key; false when it does not have 32 bytes. */
export function isSignedByRawEd25519Key(raw: Uint8Array, signed: Uint8Array, signature: Uint8Array): boolean {
  return raw.length === ED25519_KEY_BYTES && isSignedByEd25519Key(ed25519SpkiFromRaw(raw), signed, signature);
}

function privateKeyFrom(keyPem: Secret<string>): KeyObject | undefined {
  try {
    return createPrivateKey(keyPem.reveal());
  } catch {
    return undefined; // the text is not a key at all; the caller reports the file
  }
}
