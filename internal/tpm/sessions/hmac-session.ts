import { createCipheriv, createDecipheriv, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Secret } from '../../secret/index.ts';
import { digestOf } from '../algorithms.ts';
import { MAX_MESSAGE_BYTES } from '../transport.ts';
import { WireReader, WireWriter } from '../wire.ts';
import { kdfA } from './kdf.ts';

const NONCE_BYTES = 32;
const KEY_BYTES = 16;
const EMPTY = new Uint8Array();

/** What an HMAC of a session covers: the hash of the command or response, the attributes of the session, and a key. */
interface Covered {
  readonly hash: Uint8Array;
  readonly attributes: number;
  /** The authorization value of the handle that the session authorizes; empty if there is none. */
  readonly value: Uint8Array;
}

/**
 * The caller's half of a session with a salt (Part 1, 19.6 and 21): HMACs of commands and responses, and AES-128-CFB of their first
 * parameter. Its key follows from a salt that only one key of the TPM decrypts, so that nobody on the bus can compute or check
 * anything of it. Both nonces change with each command: nothing recorded is accepted again.
 */
export class HmacSession {
  readonly handle: number;
  readonly #key: Secret<Uint8Array>;
  #nonceTpm: Uint8Array;
  #nonceCaller: Uint8Array = EMPTY;

  constructor(options: {
    readonly handle: number;
    readonly key: Secret<Uint8Array>;
    readonly nonceTpm: Uint8Array;
  }) {
    this.handle = options.handle;
    this.#key = options.key;
    this.#nonceTpm = options.nonceTpm;
  }

  /** Takes a new nonce for the next command and returns it. */
  begin(): Uint8Array {
    this.#nonceCaller = randomBytes(NONCE_BYTES);
    return this.#nonceCaller;
  }

  /** Encrypts the first parameter of a command. */
  encryptRequest(parameters: Uint8Array, value: Uint8Array): Uint8Array {
    const [key, iv] = this.#cipherKey(value, this.#nonceCaller, this.#nonceTpm);
    return withFirst(parameters, (first) => createCipheriv('aes-128-cfb', key, iv).update(first));
  }

  /** The HMAC of the command, which the TPM verifies before it does anything. */
  hmacOfRequest(covered: Covered): Uint8Array {
    return this.#hmac(covered, this.#nonceCaller, this.#nonceTpm);
  }

  /**
   * Whether the TPM made this response to the last command. Takes over its nonce if so.
   * @param nonceTpm the nonce in the response
   */
  acceptResponse(covered: Covered, nonceTpm: Uint8Array, hmac: Uint8Array): boolean {
    const expected = this.#hmac(covered, nonceTpm, this.#nonceCaller);
    if (hmac.length !== expected.length || !timingSafeEqual(hmac, expected)) return false;
    this.#nonceTpm = nonceTpm;
    return true;
  }

  /** Decrypts the first parameter of an accepted response. */
  decryptResponse(parameters: Uint8Array, value: Uint8Array): Uint8Array {
    const [key, iv] = this.#cipherKey(value, this.#nonceTpm, this.#nonceCaller);
    return withFirst(parameters, (first) => createDecipheriv('aes-128-cfb', key, iv).update(first));
  }

  /** The nonce of the sender comes first, so that neither direction is a copy of the other. */
  #hmac({ hash, attributes, value }: Covered, newer: Uint8Array, older: Uint8Array): Uint8Array {
    return createHmac('sha256', this.#keyWith(value))
      .update(hash)
      .update(newer)
      .update(older)
      .update(Uint8Array.of(attributes))
      .digest();
  }

  #cipherKey(value: Uint8Array, newer: Uint8Array, older: Uint8Array): [Uint8Array, Uint8Array] {
    const options = { hash: 'sha256', label: 'CFB', contextU: newer, contextV: older } as const;
    const both = kdfA({ ...options, key: this.#keyWith(value), bits: 2 * KEY_BYTES * 8 });
    return [both.subarray(0, KEY_BYTES), both.subarray(KEY_BYTES)];
  }

  #keyWith(value: Uint8Array): Uint8Array {
    // A TPM removes zeros at the end of an authorization value (Part 1, 19.6.4.3). HMAC gives a key of at most 64 bytes such zeros
    // anyway, so they change nothing.
    return Buffer.concat([this.#key.reveal(), value]);
  }
}

/** The key of a session (Part 1, 19.6.8): from the salt and the first nonces of both sides. */
export function sessionKey(salt: Uint8Array, nonceTpm: Uint8Array, nonceCaller: Uint8Array): Uint8Array {
  return kdfA({
    hash: 'sha256',
    key: salt,
    label: 'ATH',
    contextU: nonceTpm,
    contextV: nonceCaller,
    bits: 256,
  });
}

/** cpHash (Part 1, 16.7): the command, the Names of its handles and its parameters, encrypted as they are sent. */
export function commandHash(code: number, names: readonly Uint8Array[], parameters: Uint8Array): Uint8Array {
  return digestOf('sha256', new WireWriter().u32(code).finish(), ...names, parameters);
}

/** rpHash (Part 1, 16.8) of a success. */
export function responseHash(code: number, parameters: Uint8Array): Uint8Array {
  return digestOf('sha256', new WireWriter().u32(0).u32(code).finish(), parameters);
}

/** Replaces the content of the first parameter, a TPM2B. Its size is not encrypted. */
function withFirst(parameters: Uint8Array, change: (first: Uint8Array) => Uint8Array): Uint8Array {
  const reader = new WireReader(parameters, 'parameters');
  const first = reader.sized('first parameter', MAX_MESSAGE_BYTES);
  return new WireWriter().sized(change(first)).bytes(reader.rest()).finish();
}
