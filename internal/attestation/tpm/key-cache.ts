import { createHash, type KeyObject } from 'node:crypto';
import { keyObjectOf, parsePublic, type TpmPublic } from '../../tpm/index.ts';

/** A parsed public area, with the key for node:crypto. */
export interface ParsedKey {
  readonly publicArea: TpmPublic;
  readonly keyObject: KeyObject;
}

/**
 * A bounded LRU cache of parsed attestation keys, by the hash of their bytes. Parsing a key costs half as much as verifying a
 * signature, and a machine sends the same key each time. No result of a verification is cached.
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

  /** Like `parseKey()`. */
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

/** Parses TPMT_PUBLIC. Throws TpmError `tpm-malformed`. */
export function parseKey(bytes: Uint8Array): ParsedKey {
  const publicArea = parsePublic(bytes);
  return { publicArea, keyObject: keyObjectOf(publicArea.key) };
}
