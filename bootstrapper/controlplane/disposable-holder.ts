/** Holds one disposable value. A new value replaces and disposes the old one. */
export class DisposableHolder<T extends Disposable> {
  #value: T | undefined;

  /** The current value, if any. */
  get value(): T | undefined {
    return this.#value;
  }

  /** Replaces the value. */
  set(value: T): void {
    this.clear();
    this.#value = value;
  }

  /** Replaces the value if it is still `before`; otherwise disposes the new one. Returns whether it has replaced it. */
  replace(before: T, value: T): boolean {
    if (this.#value !== before) {
      value[Symbol.dispose]();
      return false;
    }
    this.set(value);
    return true;
  }

  /** Disposes the value. */
  clear(): void {
    const dropped = this.#value;
    this.#value = undefined;
    dropped?.[Symbol.dispose]();
  }
}
