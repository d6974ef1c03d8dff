import { createHash, randomBytes } from 'node:crypto';
import { z } from 'zod';
import { Secret } from '../secret/index.ts';
import { isPhaseAtLeast, type KeyPhase } from './phases.ts';

/** Name of the encryption key in records and owner documents. */
export const ENCRYPTION_KEY = 'encryption-key';
/** The resources that Kubernetes may keep encrypted in its etcd. */
export const ENCRYPTABLE_RESOURCES = ['secrets', 'configmaps'] as const;
/** One of `ENCRYPTABLE_RESOURCES`. */
export type EncryptableResource = (typeof ENCRYPTABLE_RESOURCES)[number];

const KEY_BYTES = 32;
const ID_LABEL = 'cluster/keys/encryption/v1\0';
/** Enough of the identifier to tell the keys of one generation apart. */
const NAME_HEX = 12;

/** A key with which API servers encrypt objects (secretbox: XSalsa20 and Poly1305, 32 bytes). */
export interface EncryptionKey {
  /** The name that Kubernetes writes, in the clear, before each value that is encrypted with the key. */
  readonly name: string;
  /**
   * SHA-256 of the key, lower-case hex. Records and owners' signatures contain this hash, because an encryption key has
   * no public half.
   */
  readonly id: string;
  /** Base64. undefined after the key was deleted, because nothing is encrypted with the key any more. */
  readonly secret: Secret<string> | undefined;
}

/** The encryption keys of a rotation. */
export interface EncryptionKeys {
  readonly resources: readonly EncryptableResource[];
  readonly previous: EncryptionKey;
  readonly next: EncryptionKey;
  /** Keys of earlier rotations that this rotation replaced before they had encrypted all objects again. */
  readonly older: readonly EncryptionKey[];
}

/** The encryption that a control plane uses: the encrypted resources and the keys. */
export interface CurrentEncryption {
  readonly resources: readonly EncryptableResource[];
  readonly key: EncryptionKey;
  readonly older: readonly EncryptionKey[];
}

/** Creates the encryption key of a generation. */
export function createEncryptionKey(generation: number): EncryptionKey {
  const secret = new Secret(randomBytes(KEY_BYTES).toString('base64'));
  const id = idOf(secret);
  return { name: `g${generation}-${id.slice(0, NAME_HEX)}`, id, secret };
}

/**
 * Makes an `EncryptionKey` of a name and a secret that API servers use already.
 * @throws RangeError for anything but 32 bytes in canonical base64
 */
export function encryptionKeyFrom(name: string, secret: Secret<string>): EncryptionKey {
  return { name, id: idOf(secret), secret };
}

/** The text that represents an encryption key where other keys have their public key. */
export function encryptionKeyText({ name, id }: EncryptionKey): string {
  return `${name}:${id}`;
}

/** The keys that API servers have in a phase: the first one encrypts, all of them decrypt. */
export function encryptionKeysIn(phase: KeyPhase, keys: EncryptionKeys): readonly EncryptionKey[] {
  const { previous, next, older } = keys;
  // If the secret of the previous key is missing, a control plane in a later phase has deleted it.
  if (isPhaseAtLeast(phase, 'retire') || previous.secret === undefined) return [next];
  const others = older.filter(({ secret }) => secret !== undefined);
  if (isPhaseAtLeast(phase, 'issue')) return [next, previous, ...others];
  return [previous, ...(isPhaseAtLeast(phase, 'trust') ? [next] : []), ...others];
}

/**
 * The encryption from which the next rotation starts. Before phase `retire`, an object may be encrypted with any key of
 * the rotation.
 */
export function currentEncryption(phase: KeyPhase, keys: EncryptionKeys): CurrentEncryption {
  const { resources, next, previous, older } = keys;
  if (isPhaseAtLeast(phase, 'retire')) return { resources, key: next, older: [] };
  const [key, other] = isPhaseAtLeast(phase, 'issue') ? [next, previous] : [previous, next];
  return { resources, key, older: [other, ...older].filter(({ secret }) => secret !== undefined) };
}

/**
 * The keys as phase `done` keeps them. Only the next key keeps its secret, because nothing is encrypted with the other
 * keys any more.
 */
export function withoutReplacedSecrets({ resources, previous, next }: EncryptionKeys): EncryptionKeys {
  return { resources, previous: { ...previous, secret: undefined }, next, older: [] };
}

const keyShape = z.strictObject({
  // A name without a colon, because Kubernetes ends the name of a key at the first colon.
  name: z.string().regex(/^[a-z0-9][a-z0-9.-]{0,62}$/),
  id: z.string().regex(/^[0-9a-f]{64}$/),
  secret: z.string().optional(),
});

/** The shape of `EncryptionKeys` in the key set file. */
export const encryptionKeysShape = z.strictObject({
  resources: z.array(z.enum(ENCRYPTABLE_RESOURCES)).min(1),
  previous: keyShape,
  next: keyShape.required(),
  older: z.array(keyShape).max(16),
});

/** Encodes the keys, with their secrets, as plain JSON values. */
export function plainEncryptionKeys(keys: EncryptionKeys): z.infer<typeof encryptionKeysShape> {
  const plain = ({ name, id, secret }: EncryptionKey) => ({
    ...{ name, id },
    ...(secret === undefined ? {} : { secret: secret.reveal() }),
  });
  const { resources, previous, next, older } = keys;
  return {
    resources: [...resources],
    previous: plain(previous),
    next: { ...plain(next), secret: next.secret?.reveal() ?? '' },
    older: older.map(plain),
  };
}

/**
 * Decodes keys that `plainEncryptionKeys()` encoded.
 * @throws RangeError if the hash of a secret differs from its identifier
 */
export function encryptionKeysFrom(plain: z.infer<typeof encryptionKeysShape>): EncryptionKeys {
  const key = ({ name, id, secret }: z.infer<typeof keyShape>): EncryptionKey => {
    if (secret === undefined) return { name, id, secret };
    const read = encryptionKeyFrom(name, new Secret(secret));
    if (read.id !== id) throw new RangeError(`encryption key ${name} and its identifier do not match`);
    return read;
  };
  const { resources, previous, next, older } = plain;
  return { resources, previous: key(previous), next: key(next), older: older.map(key) };
}

function idOf(secret: Secret<string>): string {
  const bytes = Buffer.from(secret.reveal(), 'base64');
  if (bytes.length !== KEY_BYTES || bytes.toString('base64') !== secret.reveal())
    throw new RangeError(`an encryption key of ${KEY_BYTES} bytes in base64 expected`);
  return createHash('sha256').update(ID_LABEL).update(bytes).digest('hex');
}
