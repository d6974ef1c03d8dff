import { inspect } from 'node:util';

const MASK = '[secret]';

/** A value that does not print: `String`, JSON and `util.inspect` all show `[secret]`. */
export class Secret<T> {
  readonly #value: T;

  constructor(value: T) {
    this.#value = value;
  }

  /** The value itself. Each call site is a place where a secret leaves its wrapper; keep them few. */
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
