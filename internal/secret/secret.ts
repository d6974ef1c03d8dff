import { inspect } from 'node:util';

const MASK = '[secret]';

/** A secret value. `String()`, JSON and `util.inspect()` print `[secret]` instead of it. */
export class Secret<T> {
  readonly #value: T;

  constructor(value: T) {
    this.#value = value;
  }

  /** The value itself. Call this as late as possible, where the secret is used. */
  reveal(): T {
    return this.#value;
  }

  toString(): string {
    return MASK;
  }

  toJSON(): string {
    return MASK;
  }

  [inspect.custom](): string {
    return MASK;
  }
}
