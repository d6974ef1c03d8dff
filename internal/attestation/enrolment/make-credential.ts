import {
  constants,
  createCipheriv,
  createHmac,
  diffieHellman,
  generateKeyPairSync,
  publicEncrypt,
  randomBytes,
} from 'node:crypto';
import {
  CURVES,
  digestOf,
  hashSizeBytes,
  keyObjectOf,
  WireWriter,
  type HashName,
  type TpmPublic,
} from '../../tpm/index.ts';

/** An encrypted secret that only one TPM can decrypt, if it holds a given key: parameters of TPM2_ActivateCredential. */
export interface Credential {
  readonly credentialBlob: Uint8Array;
  readonly encryptedSeed: Uint8Array;
}

const IDENTITY = Buffer.from('IDENTITY\0', 'ascii');

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
  const { seed, encryptedSeed } = createSeed(endorsementKey);
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

/** Creates the seed. RSA: random, encrypted with OAEP. ECC: KDFe over the ECDH secret with an ephemeral key. */
function createSeed({ key, nameHash: hash }: TpmPublic): {
  readonly seed: Uint8Array;
  readonly encryptedSeed: Uint8Array;
} {
  const publicKey = keyObjectOf(key);
  if (key.kind === 'rsa') {
    const seed = randomBytes(hashSizeBytes(hash));
    const padding = constants.RSA_PKCS1_OAEP_PADDING;
    const encryptedSeed = publicEncrypt(
      { key: publicKey, padding, oaepHash: hash, oaepLabel: IDENTITY },
      seed,
    );
    return { seed, encryptedSeed };
  }
  const ephemeral = generateKeyPairSync('ec', { namedCurve: key.curve === 'p256' ? 'P-256' : 'P-384' });
  const { x = '', y = '' } = ephemeral.publicKey.export({ format: 'jwk' });
  const [ephemeralX, ephemeralY] = [Buffer.from(x, 'base64url'), Buffer.from(y, 'base64url')];
  const shared = diffieHellman({ privateKey: ephemeral.privateKey, publicKey });
  if (shared.length !== CURVES[key.curve].sizeBytes)
    throw new RangeError(`the ECDH secret has ${shared.length} bytes`);
  const seed = kdfE({ hash, shared, partyU: ephemeralX, partyV: key.x });
  return { seed, encryptedSeed: new WireWriter().sized(ephemeralX).sized(ephemeralY).finish() };
}

interface KdfA {
  readonly hash: HashName;
  readonly key: Uint8Array;
  readonly label: string;
  readonly contextU?: Uint8Array;
  readonly bits: number;
}

/** KDFa (Part 1, 11.4.10.2): SP 800-108 in counter mode with HMAC, one block. Throws RangeError for more than one. */
export function kdfA({ hash, key, label, contextU = new Uint8Array(), bits }: KdfA): Uint8Array {
  const hmac = createHmac(hash, key).update(uint32(1)).update(`${label}\0`, 'ascii');
  const block = hmac.update(contextU).update(uint32(bits)).digest();
  if (bits > block.length * 8) throw new RangeError(`one block of ${hash} has fewer than ${bits} bits`);
  return new Uint8Array(block.subarray(0, bits / 8));
}

/** KDFe (Part 1, 11.4.10.3): SP 800-56A, one block, as long as the hash. */
function kdfE(options: {
  readonly hash: HashName;
  readonly shared: Uint8Array;
  readonly partyU: Uint8Array;
  readonly partyV: Uint8Array;
}): Uint8Array {
  return digestOf(options.hash, uint32(1), options.shared, IDENTITY, options.partyU, options.partyV);
}

function uint32(value: number): Uint8Array {
  return new WireWriter().u32(value).finish();
}
