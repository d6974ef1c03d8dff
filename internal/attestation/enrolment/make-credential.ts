import { createCipheriv, createHmac } from 'node:crypto';
import { hashSizeBytes, kdfA, shareSecret, WireWriter, type TpmPublic } from '../../tpm/index.ts';

/** An encrypted secret that only one TPM can decrypt, if it holds a given key: parameters of TPM2_ActivateCredential. */
export interface Credential {
  readonly credentialBlob: Uint8Array;
  readonly encryptedSeed: Uint8Array;
}

/**
 * TPM2_MakeCredential in software (Part 1, 24 "Credential Protection"). A seed is encrypted to the endorsement key. Two
 * keys are derived from the seed: one encrypts the secret and also depends on the Name of the attestation key; the
 * other authenticates secret and Name. A TPM decrypts the secret only if it holds the endorsement key and an object
 * with that Name.
 */
export function makeCredential(
  endorsementKey: TpmPublic,
  attestationKeyName: Uint8Array,
  secret: Uint8Array,
): Credential {
  const { nameHash: hash, symmetric } = endorsementKey;
  if (symmetric === undefined) throw new RangeError('the endorsement key has no symmetric cipher');
  if (secret.length === 0 || secret.length > hashSizeBytes(hash))
    throw new RangeError(`a secret has 1 to ${hashSizeBytes(hash)} bytes, not ${secret.length}`);
  const { secret: seed, encrypted: encryptedSeed } = shareSecret(endorsementKey, 'IDENTITY');
  const storageKey = kdfA({
    hash,
    key: seed,
    label: 'STORAGE',
    contextU: attestationKeyName,
    bits: symmetric.keyBits,
  });
  const cipher = createCipheriv(`aes-${symmetric.keyBits}-cfb`, storageKey, Buffer.alloc(16));
  const encrypted = Buffer.concat([cipher.update(new WireWriter().sized(secret).finish()), cipher.final()]);
  const integrityKey = kdfA({ hash, key: seed, label: 'INTEGRITY', bits: hashSizeBytes(hash) * 8 });
  const integrity = createHmac(hash, integrityKey).update(encrypted).update(attestationKeyName).digest();
  return { credentialBlob: new WireWriter().sized(integrity).bytes(encrypted).finish(), encryptedSeed };
}
