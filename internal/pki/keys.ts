import {
  createECDH,
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  webcrypto,
  type KeyObject,
} from 'node:crypto';
import { Secret } from '../secret/index.ts';

/** A new ECDSA P-256 key, PKCS#8 PEM: every TLS stack our nodes meet can use it. */
export function generateKeyPem(): Secret<string> {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return new Secret(privateKey.export({ type: 'pkcs8', format: 'pem' }).toString());
}

/** Order of P-256 (SEC 2, 2.4.2). */
const P256_ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
const P256_SEED_BYTES = 48;

/**
 * The ECDSA P-256 key of a secret, always the same one; PKCS#8 PEM. 48 bytes, so that the bias of the reduction does not
 * matter (FIPS 186-5, A.2.1).
 */
export function keyPemFromSeed(seed: Secret<Uint8Array>): Secret<string> {
  const bytes = seed.reveal();
  if (bytes.length !== P256_SEED_BYTES) throw new RangeError(`a seed of ${bytes.length} bytes`);
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

/** SubjectPublicKeyInfo, DER, of a private key in PEM. */
export function pubKeyDerOf(keyPem: Secret<string>): Uint8Array {
  return spkiDerOf(createPublicKey(createPrivateKey(keyPem.reveal())));
}

export function spkiDerOf(publicKey: KeyObject): Uint8Array {
  return new Uint8Array(publicKey.export({ type: 'spki', format: 'der' }));
}

/** "sha256:HEX" of a SubjectPublicKeyInfo: how records name a key. */
export function fingerprintOfKey(spkiDer: Uint8Array): string {
  return `sha256:${createHash('sha256').update(spkiDer).digest('hex')}`;
}

/** A node's id is its key's: "node-" and the first 16 bytes of the SHA-256 of its SubjectPublicKeyInfo. */
export function nodeIdOf(spkiDer: Uint8Array): string {
  return `node-${createHash('sha256').update(spkiDer).digest('hex').slice(0, 32)}`;
}

type Algorithm =
  | { readonly name: 'Ed25519' }
  | { readonly name: 'ECDSA'; readonly namedCurve: string; readonly hash: 'SHA-256' };

/** The algorithms we sign and are signed with; anything else throws. */
export function algorithmOf(key: KeyObject): Algorithm {
  if (key.asymmetricKeyType === 'ed25519') return { name: 'Ed25519' };
  if (key.asymmetricKeyType === 'ec' && key.asymmetricKeyDetails?.namedCurve === 'prime256v1')
    return { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
  throw new TypeError(
    `a key of type ${key.asymmetricKeyType ?? 'unknown'}; Ed25519 and ECDSA P-256 are taken`,
  );
}

export async function webPrivateKey(keyPem: Secret<string>): Promise<webcrypto.CryptoKey> {
  const key = createPrivateKey(keyPem.reveal());
  const der = new Uint8Array(key.export({ type: 'pkcs8', format: 'der' }));
  return webcrypto.subtle.importKey('pkcs8', der, algorithmOf(key), false, ['sign']);
}

export async function webPublicKey(spkiDer: Uint8Array): Promise<webcrypto.CryptoKey> {
  const key = createPublicKey({ key: Buffer.from(spkiDer), type: 'spki', format: 'der' });
  const der = new Uint8Array(key.export({ type: 'spki', format: 'der' }));
  return webcrypto.subtle.importKey('spki', der, algorithmOf(key), true, ['verify']);
}
