/** Runs work one after the other for each key; keys don't wait for each other. */
export class KeyedLock {
  readonly #tails = new Map<string, Promise<unknown>>();

  run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#tails.get(key) ?? Promise.resolve();
    // The failure of one is told to its caller, not to the next in line.
    const result = before.then(work, work);
    this.#tails.set(key, result);
    const forget = (): void => {
      if (this.#tails.get(key) === result) this.#tails.delete(key);
    };
    result.then(forget, forget);
    return result;
  }

  /** How many keys are busy. */
  get size(): number {
    return this.#tails.size;
  }
}
