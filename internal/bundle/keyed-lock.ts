/** Runs work for the same key one after the other, and for different keys concurrently. */
export class KeyedLock {
  readonly #tails = new Map<string, Promise<unknown>>();

  run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#tails.get(key) ?? Promise.resolve();
    // A failure is reported to its own caller, not to the next one.
    const result = before.then(work, work);
    this.#tails.set(key, result);
    const forget = (): void => {
      if (this.#tails.get(key) === result) this.#tails.delete(key);
    };
    result.then(forget, forget);
    return result;
  }

  /** Number of keys with running work. */
  get size(): number {
    return this.#tails.size;
  }
}
