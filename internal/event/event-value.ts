import { Cursor } from './cursor.ts';
import type { Peeked, Readable, Settable, Watcher } from './readable.ts';

/** A value with any number of readers, who see its newest state. See `index.ts` of this directory. */
export class EventValue<T> implements Settable<T>, Readable<T> {
  #now: Peeked<T> = { set: false };
  #revision = 0;
  readonly #subscribers = new Set<{ readonly wake: () => void }>();

  get revision(): number {
    return this.#revision;
  }

  /** The number of readers that wait now. Zero at the end of a test shows that no subscription leaked. */
  get waiting(): number {
    return this.#subscribers.size;
  }

  set(value: T): void {
    this.#now = { set: true, value };
    this.#revision++;
    for (const subscriber of [...this.#subscribers]) subscriber.wake();
  }

  peek(): Peeked<T> {
    return this.#now;
  }

  watch(): Watcher<T> {
    return new Cursor(this);
  }

  subscribe(wake: () => void): Disposable {
    const subscriber = { wake };
    this.#subscribers.add(subscriber);
    return { [Symbol.dispose]: () => void this.#subscribers.delete(subscriber) };
  }
}
