import { constants, diffieHellman, generateKeyPairSync, publicEncrypt, randomBytes } from 'node:crypto';
import { CURVES, hashSizeBytes } from '../algorithms.ts';
import { keyObjectOf, type TpmPublic } from '../structures/public.ts';
import { WireWriter } from '../wire.ts';
import { kdfE } from './kdf.ts';

/** A new secret, and its encrypted form (TPM2B_ENCRYPTED_SECRET without its size). */
export interface SharedSecret {
  readonly secret: Uint8Array;
  readonly encrypted: Uint8Array;
}

/**
 * Creates a secret that only the TPM with this key can decrypt (Part 1, B.10 and C.6). RSA: random, encrypted with OAEP. ECC: KDFe
 * over the ECDH secret with an ephemeral key. The label says what the secret is for, so that it cannot be used for anything else.
 */
export function shareSecret(
  { key, nameHash: hash }: Pick<TpmPublic, 'key' | 'nameHash'>,
  label: 'IDENTITY' | 'SECRET',
): SharedSecret {
  const publicKey = keyObjectOf(key);
  if (key.kind === 'rsa') {
    const secret = randomBytes(hashSizeBytes(hash));
    const padding = constants.RSA_PKCS1_OAEP_PADDING;
    const oaepLabel = Buffer.from(`${label}\0`, 'ascii');
    return {
      secret,
      encrypted: publicEncrypt({ key: publicKey, padding, oaepHash: hash, oaepLabel }, secret),
    };
  }
  const ephemeral = generateKeyPairSync('ec', { namedCurve: key.curve === 'p256' ? 'P-256' : 'P-384' });
  const { x = '', y = '' } = ephemeral.publicKey.export({ format: 'jwk' });
  const [ephemeralX, ephemeralY] = [Buffer.from(x, 'base64url'), Buffer.from(y, 'base64url')];
  const shared = diffieHellman({ privateKey: ephemeral.privateKey, publicKey });
  if (shared.length !== CURVES[key.curve].sizeBytes)
    throw new RangeError(`the ECDH secret has ${shared.length} bytes`);
  const secret = kdfE({ hash, shared, label, partyU: ephemeralX, partyV: key.x });
  return { secret, encrypted: new WireWriter().sized(ephemeralX).sized(ephemeralY).finish() };
}
