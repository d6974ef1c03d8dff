import {
  createCipheriv,
  createDecipheriv,
  createPrivateKey,
  createPublicKey,
  diffieHellman,
  generateKeyPairSync,
  hkdfSync,
  randomBytes,
  type KeyObject,
} from 'node:crypto';
import { Secret } from '../secret/index.ts';
import { lengthPrefixed } from './length-prefix.ts';
import { p256KeyFrom } from './p256.ts';
import type { SealContext, Sealed } from './sealed.ts';

/** The parts of a message of the first format. */
type SealedV1 = Pick<Sealed, 'ephemeralPublicKey' | 'nonce' | 'ciphertext'>;

const LABEL = 'cluster/sealed/v1';
const TAG_BYTES = 16;
const NONCE_BYTES = 12;

/**
 * Encrypts in the first format, for agents that do not know HPKE yet: ECDH with a key generated for this message, HKDF-SHA-256
 * over both public keys and the context, AES-256-GCM.
 * @param recipientDer SubjectPublicKeyInfo of the machine's P-256 key, chosen by the peer
 * @throws RangeError unless it is a P-256 key
 */
export function sealV1(text: Secret<Uint8Array>, recipientDer: Uint8Array, context: SealContext): Sealed {
  const recipient = p256KeyFrom(recipientDer);
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const ephemeralPublicKey = spki(publicKey);
  const key = sharedKey(
    { privateKey, publicKey: recipient, ephemeralPublicKey, recipientDer: spki(recipient) },
    context,
  );
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key.reveal(), nonce);
  const body = [cipher.update(text.reveal()), cipher.final()];
  return {
    encapsulatedKey: new Uint8Array(),
    ephemeralPublicKey,
    nonce: new Uint8Array(nonce),
    ciphertext: new Uint8Array(Buffer.concat([...body, cipher.getAuthTag()])),
  };
}

/**
 * Decrypts a message of the first format with the recipient's private key (PKCS#8 PEM).
 * @throws RangeError for a malformed message; Error when it was altered, or sealed to another key or context
 */
export function unsealV1(sealed: SealedV1, keyPem: Secret<string>, context: SealContext): Secret<Uint8Array> {
  const { nonce, ciphertext } = sealed;
  if (nonce.length !== NONCE_BYTES || ciphertext.length < TAG_BYTES)
    throw new RangeError('malformed sealed message');
  const privateKey = createPrivateKey(keyPem.reveal());
  const publicKey = p256KeyFrom(sealed.ephemeralPublicKey);
  const recipientDer = spki(createPublicKey(privateKey));
  const key = sharedKey(
    { privateKey, publicKey, ephemeralPublicKey: spki(publicKey), recipientDer },
    context,
  );
  const decipher = createDecipheriv('aes-256-gcm', key.reveal(), nonce);
  decipher.setAuthTag(ciphertext.subarray(ciphertext.length - TAG_BYTES));
  const body = decipher.update(ciphertext.subarray(0, ciphertext.length - TAG_BYTES));
  return new Secret(new Uint8Array(Buffer.concat([body, decipher.final()])));
}

function sharedKey(
  parties: {
    readonly privateKey: KeyObject;
    readonly publicKey: KeyObject;
    readonly ephemeralPublicKey: Uint8Array;
    readonly recipientDer: Uint8Array;
  },
  { kind, clusterId, nodeId }: SealContext,
): Secret<Uint8Array> {
  const { privateKey, publicKey, ephemeralPublicKey, recipientDer } = parties;
  const shared = diffieHellman({ privateKey, publicKey });
  const info = lengthPrefixed(LABEL, kind, clusterId, nodeId, ephemeralPublicKey, recipientDer);
  return new Secret(new Uint8Array(hkdfSync('sha256', shared, Buffer.alloc(32), info, 32)));
}

function spki(key: KeyObject): Uint8Array {
  return new Uint8Array(key.export({ format: 'der', type: 'spki' }));
}
