import { Cursor } from './cursor.ts';
import type { Peeked, Readable } from './readable.ts';

/** A readable of `transform(value)`. `transform` must be pure: it runs for each reader and each read. */
export function map<T, U>(source: Readable<T>, transform: (value: T) => U): Readable<U> {
  return derive({
    revision: () => source.revision,
    peek: () => {
      const now = source.peek();
      return now.set ? { set: true, value: transform(now.value) } : now;
    },
    subscribe: (wake) => source.subscribe(wake),
  });
}

/** One object with the newest value of each source. */
type Combined<Sources extends Readonly<Record<string, Readable<unknown>>>> = {
  readonly [Name in keyof Sources]: Sources[Name] extends Readable<infer T> ? T : never;
};

/**
 * Combines several readables into one. It has a value when all sources have one, and reports a new value
 * whenever one of them changes.
 */
export function combine<const Sources extends Readonly<Record<string, Readable<unknown>>>>(
  sources: Sources,
): Readable<Combined<Sources>> {
  const all = Object.entries(sources);
  return derive({
    revision: () => all.reduce((sum, [, source]) => sum + source.revision, 0),
    peek: () => {
      const values: Record<string, unknown> = {};
      for (const [name, source] of all) {
        const now = source.peek();
        if (!now.set) return now;
        values[name] = now.value;
      }
      return { set: true, value: values as Combined<Sources> };
    },
    subscribe: (wake) => {
      const subscriptions = all.map(([, source]) => source.subscribe(wake));
      return { [Symbol.dispose]: () => subscriptions.forEach((each) => each[Symbol.dispose]()) };
    },
  });
}

/** The part of a derived readable that `map` or `combine` defines; `derive` adds the rest. */
interface Derivation<T> {
  readonly revision: () => number;
  readonly peek: () => Peeked<T>;
  readonly subscribe: (wake: () => void) => Disposable;
}

function derive<T>(derivation: Derivation<T>): Readable<T> {
  const readable: Readable<T> = {
    get revision() {
      return derivation.revision();
    },
    peek: derivation.peek,
    subscribe: derivation.subscribe,
    watch: () => new Cursor(readable),
  };
  return readable;
}
