/**
 * One thing at a time that has to be let go: a newer one takes its place, and whoever was overtaken while making a
 * replacement lets go of that instead.
 */
export class Held<T extends Disposable> {
  #value: T | undefined;

  get value(): T | undefined {
    return this.#value;
  }

  /** Takes the place of what is held. */
  hold(value: T): void {
    this.drop();
    this.#value = value;
  }

  /** Takes the place of `before` if that is still held. Answers whether it was. */
  exchange(before: T, value: T): boolean {
    if (this.#value !== before) {
      value[Symbol.dispose]();
      return false;
    }
    this.hold(value);
    return true;
  }

  drop(): void {
    const dropped = this.#value;
    this.#value = undefined;
    dropped?.[Symbol.dispose]();
  }
}
