import {
  createECDH,
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  type webcrypto,
} from 'node:crypto';
import { P256_ORDER } from '../crypto/index.ts';
import { Secret } from '../secret/index.ts';

/** Generates an ECDSA P-256 private key, PKCS#8 PEM. Every TLS stack that nodes talk to supports P-256. */
export function generateKeyPem(): Secret<string> {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return new Secret(privateKey.export({ type: 'pkcs8', format: 'pem' }).toString());
}

const P256_SEED_BYTES = 48;

/**
 * Derives an ECDSA P-256 private key (PKCS#8 PEM) from a seed of 48 bytes, always the same key from the same seed. The seed
 * is longer than the key so that the bias of the reduction is negligible (FIPS 186-5, A.2.1).
 */
export function keyPemFromSeed(seed: Secret<Uint8Array>): Secret<string> {
  const bytes = seed.reveal();
  if (bytes.length !== P256_SEED_BYTES)
    throw new RangeError(`a seed has ${P256_SEED_BYTES} bytes, not ${bytes.length}`);
  const scalar = (BigInt(`0x${Buffer.from(bytes).toString('hex')}`) % (P256_ORDER - 1n)) + 1n;
  const d = Buffer.from(scalar.toString(16).padStart(64, '0'), 'hex');
  const curve = createECDH('prime256v1');
  curve.setPrivateKey(d);
  const point = curve.getPublicKey();
  const coordinate = (from: number): string => point.subarray(from, from + 32).toString('base64url');
  const key = { kty: 'EC', crv: 'P-256', d: d.toString('base64url'), x: coordinate(1), y: coordinate(33) };
  const privateKey = createPrivateKey({ key, format: 'jwk' });
  return new Secret(privateKey.export({ type: 'pkcs8', format: 'pem' }).toString());
}

/** The SubjectPublicKeyInfo (DER) of a private key in PEM. */
export function pubKeyDerOf(keyPem: Secret<string>): Uint8Array {
  return spkiDerOf(createPublicKey(createPrivateKey(keyPem.reveal())));
}

/** The SubjectPublicKeyInfo (DER) of a public key. */
export function spkiDerOf(publicKey: KeyObject): Uint8Array {
  return new Uint8Array(publicKey.export({ type: 'spki', format: 'der' }));
}

/** The fingerprint by which records refer to a key: "sha256:" and the SHA-256 of its SubjectPublicKeyInfo in hex. */
export function fingerprintOfKey(spkiDer: Uint8Array): string {
  return `sha256:${createHash('sha256').update(spkiDer).digest('hex')}`;
}

/** The form of the ids that `nodeIdOf` returns. */
export const NODE_ID = /^node-[0-9a-f]{32}$/;

/** The longest PEM text that a peer may send: one certificate, a few certificates, or a key. */
export const MAX_PEM_BYTES = 16 * 1024;

/** The id of the node with this key: "node-" and, in hex, the first 16 bytes of the SHA-256 of its SubjectPublicKeyInfo. */
export function nodeIdOf(spkiDer: Uint8Array): string {
  return nodeIdOfFingerprint(`sha256:${createHash('sha256').update(spkiDer).digest('hex')}`);
}

/** The id of the node whose key has this fingerprint ("sha256:HEX"). */
export function nodeIdOfFingerprint(fingerprint: string): string {
  return `node-${fingerprint.replace('sha256:', '').slice(0, 32)}`;
}

type Algorithm =
  | { readonly name: 'Ed25519' }
  | { readonly name: 'ECDSA'; readonly namedCurve: string; readonly hash: 'SHA-256' };

/** The WebCrypto algorithm of an Ed25519 or ECDSA P-256 key. Throws TypeError for other kinds of key. */
function algorithmOf(key: KeyObject): Algorithm {
  if (key.asymmetricKeyType === 'ed25519') return { name: 'Ed25519' };
  if (key.asymmetricKeyType === 'ec' && key.asymmetricKeyDetails?.namedCurve === 'prime256v1')
    return { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
  throw notSupported(key.asymmetricKeyType ?? 'unknown');
}

/** A private key in PEM for WebCrypto, for signing only. Throws TypeError for algorithms that are not supported. */
export function webPrivateKey(keyPem: Secret<string>): webcrypto.CryptoKey {
  const key = createPrivateKey(keyPem.reveal());
  return key.toCryptoKey(algorithmOf(key), false, ['sign']);
}

/** The public half of a private key in PEM, for WebCrypto. Throws TypeError for algorithms that are not supported. */
export function webPublicKey(keyPem: Secret<string>): webcrypto.CryptoKey {
  const key = createPublicKey(createPrivateKey(keyPem.reveal()));
  return key.toCryptoKey(algorithmOf(key), true, ['verify']);
}

/** First bytes and length of the SubjectPublicKeyInfo of a P-256 key (RFC 5480, uncompressed point) and of an Ed25519 key (RFC 8410). */
const SUPPORTED = [
  { begin: '3059301306072a8648ce3d020106082a8648ce3d03010703420004', bytes: 91 },
  { begin: '302a300506032b6570032100', bytes: 44 },
] as const;

/**
 * Refuses keys other than Ed25519 and ECDSA P-256 keys, and other encodings than the usual one. Does not check that the
 * point is on the curve, because the verification of any signature checks that.
 * @throws TypeError
 */
export function requireSupported(spkiDer: Uint8Array): void {
  const hex = Buffer.from(spkiDer).toString('hex');
  if (SUPPORTED.some(({ begin, bytes }) => hex.startsWith(begin) && spkiDer.length === bytes)) return;
  throw notSupported(`SubjectPublicKeyInfo ${hex.slice(0, 54)}`);
}

function notSupported(type: string): TypeError {
  return new TypeError(`key type ${type} is not supported, only Ed25519 and ECDSA P-256 are`);
}
