/**
 * One thing at a time that has to be let go: a newer one takes its place, and whoever was overtaken while making a
 * replacement lets go of that instead.
 */
export class DisposableHolder<T extends Disposable> {
  #value: T | undefined;

  get value(): T | undefined {
    return this.#value;
  }

  /** Takes the place of what is held. */
  set(value: T): void {
    this.clear();
    this.#value = value;
  }

  /** Takes the place of `before` if that is still held. Answers whether it was. */
  replace(before: T, value: T): boolean {
    if (this.#value !== before) {
      value[Symbol.dispose]();
      return false;
    }
    this.set(value);
    return true;
  }

  clear(): void {
    const dropped = this.#value;
    this.#value = undefined;
    dropped?.[Symbol.dispose]();
  }
}
