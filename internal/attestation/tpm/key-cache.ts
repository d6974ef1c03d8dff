import { createHash, type KeyObject } from 'node:crypto';
import { keyObjectOf, parsePublic, type TpmPublic } from '../../tpm/index.ts';

export interface ParsedKey {
  readonly publicArea: TpmPublic;
  readonly keyObject: KeyObject;
}

/**
 * Remembers attestation keys by the hash of their bytes. Turning a point into a key costs half of what verifying its
 * signature does, and a machine shows the same key each time. Only what is true for ever is kept: that these bytes are
 * this key. Bounded; the one not used for longest goes first.
 */
export class AttestationKeyCache {
  readonly #max: number;
  readonly #byHash = new Map<string, ParsedKey>();

  constructor(maxKeys = 1024) {
    this.#max = maxKeys;
  }

  get size(): number {
    return this.#byHash.size;
  }

  /** Throws a `TpmError` for what is no key. */
  parse(bytes: Uint8Array): ParsedKey {
    const hash = createHash('sha256').update(bytes).digest('base64');
    const parsed = this.#byHash.get(hash) ?? parseKey(bytes);
    this.#byHash.delete(hash);
    this.#byHash.set(hash, parsed);
    const [oldest] = this.#byHash.keys();
    if (this.#byHash.size > this.#max && oldest !== undefined) this.#byHash.delete(oldest);
    return parsed;
  }
}

export function parseKey(bytes: Uint8Array): ParsedKey {
  const publicArea = parsePublic(bytes);
  return { publicArea, keyObject: keyObjectOf(publicArea.key) };
}
