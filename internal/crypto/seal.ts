import { createPrivateKey, createPublicKey, type KeyObject, type webcrypto } from 'node:crypto';
import { AEAD_AES_256_GCM, CipherSuite, KDF_HKDF_SHA256, KEM_DHKEM_P256_HKDF_SHA256 } from 'hpke';
import { Secret } from '../secret/index.ts';
import { lengthPrefixed } from './length-prefix.ts';
import { p256KeyFrom } from './p256.ts';
import type { SealContext, Sealed } from './sealed.ts';
import { unsealV1 } from './sealed-v1.ts';

const LABEL = 'cluster/sealed/hpke/v1';
const ENCAPSULATED_BYTES = 65;
const TAG_BYTES = 16;
const ECDH = { name: 'ECDH', namedCurve: 'P-256' } as const;
const suite = new CipherSuite(KEM_DHKEM_P256_HKDF_SHA256, KDF_HKDF_SHA256, AEAD_AES_256_GCM);

/**
 * Encrypts for the holder of a P-256 key with HPKE (RFC 9180): base mode, DHKEM(P-256, HKDF-SHA256), HKDF-SHA256, AES-256-GCM.
 * The context is HPKE's `info`; the recipient's key is in HPKE's own KEM context.
 * @param recipientDer SubjectPublicKeyInfo of the machine's P-256 key, chosen by the peer
 * @throws RangeError unless it is a P-256 key
 */
export async function seal(
  text: Secret<Uint8Array>,
  recipientDer: Uint8Array,
  context: SealContext,
): Promise<Sealed> {
  const recipient = cryptoKeyFrom(p256KeyFrom(recipientDer), []);
  const sealed = await suite.Seal(recipient, text.reveal(), { info: infoOf(context) });
  const none = new Uint8Array();
  const { encapsulatedSecret: encapsulatedKey, ciphertext } = sealed;
  return { encapsulatedKey, ephemeralPublicKey: none, nonce: none, ciphertext };
}

/**
 * Decrypts a sealed message of either format with the recipient's private key (PKCS#8 PEM).
 * @throws RangeError for a malformed message; Error when it was altered, or sealed to another key or context
 */
export async function unseal(
  sealed: Sealed,
  keyPem: Secret<string>,
  context: SealContext,
): Promise<Secret<Uint8Array>> {
  const { encapsulatedKey, ephemeralPublicKey, nonce, ciphertext } = sealed;
  if (encapsulatedKey.length === 0) return unsealV1(sealed, keyPem, context);
  const isOneFormat = ephemeralPublicKey.length === 0 && nonce.length === 0;
  if (!isOneFormat || encapsulatedKey.length !== ENCAPSULATED_BYTES || ciphertext.length < TAG_BYTES)
    throw new RangeError('malformed sealed message');
  const key = createPrivateKey(keyPem.reveal());
  const pair = {
    privateKey: cryptoKeyFrom(key, ['deriveBits']),
    publicKey: cryptoKeyFrom(createPublicKey(key), []),
  };
  return new Secret(await suite.Open(pair, encapsulatedKey, ciphertext, { info: infoOf(context) }));
}

function infoOf({ kind, clusterId, nodeId }: SealContext): Uint8Array {
  return lengthPrefixed(LABEL, kind, clusterId, nodeId);
}

/**
 * HPKE puts the bytes of public keys into its key schedule, so public keys must be exportable. Private keys are not.
 */
function cryptoKeyFrom(key: KeyObject, usages: readonly 'deriveBits'[]): webcrypto.CryptoKey {
  return key.toCryptoKey(ECDH, key.type === 'public', [...usages]);
}
