import { createPrivateKey, createPublicKey, generateKeyPairSync, sign, type KeyObject } from 'node:crypto';
import { Secret } from '../secret/index.ts';

const RAW_ED25519_BYTES = 32;

/** A fresh Ed25519 key as PKCS#8 PEM: an owner's. */
export function generateEd25519Key(): Secret<string> {
  const { privateKey } = generateKeyPairSync('ed25519');
  return new Secret(privateKey.export({ format: 'pem', type: 'pkcs8' }).toString());
}

/** The raw 32 bytes of the public half of an Ed25519 key in PKCS#8 PEM; undefined when it is no such key. */
export function ed25519PubKeyFrom(keyPem: Secret<string>): Uint8Array | undefined {
  const key = keyFrom(keyPem);
  if (key?.asymmetricKeyType !== 'ed25519') return undefined;
  const spki = createPublicKey(key).export({ format: 'der', type: 'spki' });
  return new Uint8Array(spki.subarray(-RAW_ED25519_BYTES));
}

/** An Ed25519 signature, 64 bytes. */
export function signEd25519(keyPem: Secret<string>, statement: Uint8Array): Uint8Array {
  return new Uint8Array(sign(undefined, statement, keyPem.reveal()));
}

function keyFrom(keyPem: Secret<string>): KeyObject | undefined {
  try {
    return createPrivateKey(keyPem.reveal());
  } catch {
    return undefined; // not a key at all; the caller names the file
  }
}
