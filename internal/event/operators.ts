import { Cursor } from './cursor.ts';
import type { Peeked, Readable } from './readable.ts';

/** The readable of `transform(value)`. `transform` is pure: it runs once for each reader and look. */
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

/** What a combination of readables gives: one object with the newest value of each. */
type Combined<Sources extends Readonly<Record<string, Readable<unknown>>>> = {
  readonly [Name in keyof Sources]: Sources[Name] extends Readable<infer T> ? T : never;
};

/** One readable of several: set once all of them are, newer whenever one of them is. */
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

/** Everything an operator has to say; the rest follows. */
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
