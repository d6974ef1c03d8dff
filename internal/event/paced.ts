import { Cursor } from './cursor.ts';
import type { Peeked, Readable, Watcher } from './readable.ts';

interface Pace {
  /** The number of readers that are woken per iteration of the event loop. */
  readonly batchSize: number;
  /** Resolves in a later iteration of the event loop; must not reject. */
  readonly yieldToEventLoop: () => Promise<void>;
}

/**
 * A readable for thousands of readers. A set wakes the first few readers at once, and the others in later
 * iterations of the event loop, in their order of arrival. So other work of the process runs in between. A
 * reader that missed several sets is woken once, for the newest value.
 */
export class Paced<T> implements Readable<T> {
  readonly #source: Readable<T>;
  readonly #pace: Pace;
  readonly #waiting = new Set<Subscriber>();
  /** Readers that the current set has not woken yet. */
  readonly #due = new Set<Subscriber>();
  #subscription: Disposable | undefined;
  #isWaking = false;

  constructor(source: Readable<T>, pace: Pace) {
    this.#source = source;
    this.#pace = pace;
  }

  get revision(): number {
    return this.#source.revision;
  }

  peek(): Peeked<T> {
    return this.#source.peek();
  }

  watch(): Watcher<T> {
    return new Cursor(this);
  }

  subscribe(wake: () => void): Disposable {
    const subscriber = { wake };
    this.#waiting.add(subscriber);
    this.#subscription ??= this.#source.subscribe(() => this.#onSet());
    return { [Symbol.dispose]: () => this.#leave(subscriber) };
  }

  #leave(subscriber: Subscriber): void {
    this.#waiting.delete(subscriber);
    this.#due.delete(subscriber);
    if (this.#waiting.size + this.#due.size > 0) return;
    this.#subscription?.[Symbol.dispose]();
    this.#subscription = undefined;
  }

  #onSet(): void {
    for (const each of this.#waiting) this.#due.add(each);
    this.#waiting.clear();
    if (!this.#isWaking) void this.#wakeAll();
  }

  async #wakeAll(): Promise<void> {
    this.#isWaking = true;
    for (;;) {
      this.#wakeSome();
      if (this.#due.size === 0) break;
      await this.#pace.yieldToEventLoop();
    }
    this.#isWaking = false;
  }

  #wakeSome(): void {
    let left = this.#pace.batchSize;
    for (const each of this.#due) {
      this.#due.delete(each);
      this.#waiting.add(each);
      each.wake();
      if (--left === 0) return;
    }
  }
}

interface Subscriber {
  readonly wake: () => void;
}
