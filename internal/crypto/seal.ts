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

/** A message that only the holder of one P-256 private key can read. */
export interface Sealed {
  /** SubjectPublicKeyInfo, DER, of the key that was generated for this message. */
  readonly ephemeralPublicKey: Uint8Array;
  /** 12 bytes. */
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

const LABEL = 'cluster/sealed/v1';
const TAG_BYTES = 16;
const NONCE_BYTES = 12;
const MAX_SPKI_BYTES = 256;

/**
 * Encrypts for the holder of a P-256 key: ECDH with a key generated for this message, HKDF-SHA-256 over both public keys
 * and the context, AES-256-GCM.
 * @param recipientDer SubjectPublicKeyInfo of the machine's P-256 key, chosen by the peer
 * @throws RangeError unless it is a P-256 key
 */
export function seal(text: Secret<Uint8Array>, recipientDer: Uint8Array, context: SealContext): Sealed {
  const recipient = p256From(recipientDer);
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
    ephemeralPublicKey,
    nonce: new Uint8Array(nonce),
    ciphertext: new Uint8Array(Buffer.concat([...body, cipher.getAuthTag()])),
  };
}

/**
 * Decrypts a sealed message with the recipient's private key (PKCS#8 PEM).
 * @throws RangeError for a malformed message; Error when it was altered, or sealed to another key or context
 */
export function unseal(sealed: Sealed, keyPem: Secret<string>, context: SealContext): Secret<Uint8Array> {
  const { nonce, ciphertext } = sealed;
  if (nonce.length !== NONCE_BYTES || ciphertext.length < TAG_BYTES)
    throw new RangeError('malformed sealed message');
  const privateKey = createPrivateKey(keyPem.reveal());
  const publicKey = p256From(sealed.ephemeralPublicKey);
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

/** Throws RangeError for other keys; node:crypto refuses points that are not on the curve. */
function p256From(spkiDer: Uint8Array): KeyObject {
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

function spki(key: KeyObject): Uint8Array {
  return new Uint8Array(key.export({ format: 'der', type: 'spki' }));
}
