import { createHash } from 'node:crypto';

/** A bounded LRU cache of parsed documents, by the hash of their bytes. */
export class ParsedCache<T> {
  readonly #max: number;
  readonly #parse: (bytes: Uint8Array) => T;
  readonly #byHash = new Map<string, T>();

  constructor(max: number, parse: (bytes: Uint8Array) => T) {
    this.#max = max;
    this.#parse = parse;
  }

  get size(): number {
    return this.#byHash.size;
  }

  /**
   * Parses bytes, or returns the value that the same bytes gave before. Throws what the parser throws, and then caches
   * nothing.
   */
  parse(bytes: Uint8Array): T {
    const hash = createHash('sha256').update(bytes).digest('hex');
    const parsed = this.#byHash.get(hash) ?? this.#parse(bytes);
    this.#byHash.delete(hash);
    this.#byHash.set(hash, parsed);
    const [oldest] = this.#byHash.keys();
    if (this.#byHash.size > this.#max && oldest !== undefined) this.#byHash.delete(oldest);
    return parsed;
  }
}
