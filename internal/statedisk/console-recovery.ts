import {
  createCipheriv,
  createDecipheriv,
  diffieHellman,
  generateKeyPairSync,
  hkdfSync,
  type KeyObject,
} from 'node:crypto';
import { rawX25519, x25519PrivateKey, x25519PublicKey } from '../crypto/index.ts';
import { Secret } from '../secret/index.ts';
import { SHARE_BYTES } from './disk-keys.ts';
import { RECOVERY_SHARE_BYTES } from './recovery-shares.ts';
import { encodeTyped } from './typed-text.ts';

const DISK_SECRET = 'cluster/state-disk/console-disk/v1';
const BOOT_MASK = 'cluster/state-disk/console-boot/v1';
const WRAPPING = 'cluster/state-disk/console-wrap/v1';
/** The length of a code and of the secret behind it. */
const CODE_BYTES = 16;
const KEY_BYTES = 32;
const TAG_BYTES = 16;
/** Each wrapping key encrypts once. */
const NONCE = new Uint8Array(12);
/** The lengths of a recovery key and of a recovery share as they are wrapped. */
export const WRAPPED_BYTES = [SHARE_BYTES + TAG_BYTES, RECOVERY_SHARE_BYTES + TAG_BYTES];
/** The length of the public key of a disk. */
export const DISK_KEY_BYTES = KEY_BYTES;

/** The part of a record with which an owner recovers a disk at the console. Nothing in it is secret. */
export interface ConsoleRecovery {
  /** Public half of a key pair (X25519) of this record. Its private half was forgotten when the record was made. */
  readonly diskKey: Uint8Array;
  /** For each recipient, in no order: the recovery key, or the recovery share of this recipient, encrypted. */
  readonly wrapped: readonly Uint8Array[];
}

/** The challenge of a locked machine, and what opens with its answer. */
export interface ConsoleChallenge {
  /** The challenge as the console shows it. */
  readonly text: string;
  /** The recovery key, or recovery share, that the code of an owner decrypts; undefined if the code is wrong. */
  open(code: Uint8Array): Secret<Uint8Array> | undefined;
}

/** What one recipient gets. */
export interface OwnerSecret {
  /** Raw X25519 public key. */
  readonly recipient: Uint8Array;
  /** The recovery key, or the recovery share of this recipient. */
  readonly secret: Secret<Uint8Array>;
}

/**
 * Encrypts the secret of each owner so that the owner can say a code of 128 bits that decrypts it: the code follows from the private half of a recipient and
 * the public key in the result, which is new each time. Both are needed, and nobody can compute it from the result alone.
 * @throws RangeError for the same recipient twice: a key would encrypt twice with one nonce
 */
export function wrapForConsole(uuid: string, secrets: readonly OwnerSecret[]): ConsoleRecovery {
  const recipients = secrets.map(({ recipient }) => Buffer.from(recipient).toString('hex'));
  if (new Set(recipients).size !== recipients.length) throw new RangeError('the same recipient twice');
  const pair = generateKeyPairSync('x25519');
  const diskKey = rawX25519(pair.publicKey);
  const wrapped = secrets.map(({ recipient, secret }) => {
    const agreed = diskSecret(agree(pair.privateKey, recipient), { diskKey, recipient });
    const cipher = createCipheriv('aes-256-gcm', wrappingKey(agreed, uuid), NONCE);
    const body = Buffer.concat([cipher.update(secret.reveal()), cipher.final()]);
    return new Uint8Array(Buffer.concat([body, cipher.getAuthTag()]));
  });
  return { diskKey, wrapped };
}

/**
 * The challenge of this boot: the key of the disk, and a key whose private half is only in the memory of this process. A code is masked with what both
 * sides derive from the second key. So a code that somebody has read is useless for a copy of the disk, for another boot and for another machine; and only
 * an owner whom the measured provisioning names can make one, whatever is on the disk.
 */
export function createConsoleChallenge(options: {
  readonly uuid: string;
  readonly recovery: ConsoleRecovery;
  /** Raw X25519 public keys from the provisioning, never from the disk. */
  readonly recipients: readonly Uint8Array[];
}): ConsoleChallenge {
  const { uuid, recovery, recipients } = options;
  const { diskKey, wrapped } = recovery;
  const pair = generateKeyPairSync('x25519');
  const bootKey = rawX25519(pair.publicKey);
  const masks = recipients.map((recipient) =>
    bootMask(agree(pair.privateKey, recipient), { diskKey, bootKey, recipient }),
  );
  return {
    text: encodeTyped('challenge', Buffer.concat([diskKey, bootKey])),
    open: (code) => {
      for (const mask of masks) {
        const key = wrappingKey(exclusiveOr(code, mask), uuid);
        const opened = wrapped.map((each) => unwrap(key, each)).find((each) => each !== undefined);
        if (opened !== undefined) return opened;
      }
      return undefined;
    },
  };
}

/**
 * The code with which an owner answers a challenge, as a person types it.
 * @param challenge the bytes of a challenge, which anybody may have invented
 * @param ownerKey raw X25519 private key of a recipient
 * @returns undefined for a challenge with a key that no machine makes
 */
export function answerConsoleChallenge(
  challenge: Uint8Array,
  ownerKey: Secret<Uint8Array>,
): Secret<string> | undefined {
  const diskKey = challenge.subarray(0, KEY_BYTES);
  const bootKey = challenge.subarray(KEY_BYTES);
  const privateKey = x25519PrivateKey(ownerKey.reveal());
  const recipient = rawX25519(privateKey);
  try {
    const secret = diskSecret(agree(privateKey, diskKey), { diskKey, recipient });
    const mask = bootMask(agree(privateKey, bootKey), { diskKey, bootKey, recipient });
    return new Secret(encodeTyped('code', exclusiveOr(secret, mask)));
  } catch {
    return undefined; // a point of small order, whose agreement is zero whatever the private key
  }
}

function agree(privateKey: KeyObject, publicKey: Uint8Array): Uint8Array {
  return diffieHellman({ privateKey, publicKey: x25519PublicKey(publicKey) });
}

/** The secret of a disk for one recipient. */
function diskSecret(
  agreed: Uint8Array,
  { diskKey, recipient }: { readonly diskKey: Uint8Array; readonly recipient: Uint8Array },
): Uint8Array {
  return hkdf(agreed, Buffer.concat([diskKey, recipient]), DISK_SECRET, CODE_BYTES);
}

/** What hides the secret of a disk in the code of one boot. */
function bootMask(
  agreed: Uint8Array,
  keys: { readonly diskKey: Uint8Array; readonly bootKey: Uint8Array; readonly recipient: Uint8Array },
): Uint8Array {
  return hkdf(agreed, Buffer.concat([keys.bootKey, keys.recipient, keys.diskKey]), BOOT_MASK, CODE_BYTES);
}

function wrappingKey(secret: Uint8Array, uuid: string): Uint8Array {
  return hkdf(secret, Buffer.from(uuid), WRAPPING, KEY_BYTES);
}

function hkdf(secret: Uint8Array, salt: Uint8Array, info: string, length: number): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', secret, salt, info, length));
}

function unwrap(key: Uint8Array, wrapped: Uint8Array): Secret<Uint8Array> | undefined {
  const decipher = createDecipheriv('aes-256-gcm', key, NONCE, { authTagLength: TAG_BYTES });
  decipher.setAuthTag(wrapped.subarray(-TAG_BYTES));
  try {
    const plain = [decipher.update(wrapped.subarray(0, -TAG_BYTES)), decipher.final()];
    return new Secret(new Uint8Array(Buffer.concat(plain)));
  } catch {
    return undefined; // the code is for another recipient, or wrong
  }
}

function exclusiveOr(one: Uint8Array, other: Uint8Array): Uint8Array {
  return one.map((byte, at) => byte ^ (other[at] ?? 0));
}
