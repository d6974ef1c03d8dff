import type { Peeked, Readable, Watcher } from './readable.ts';

/**
 * The watcher of any readable. It compares the revision of the source with the last revision that its
 * reader got.
 */
export class Cursor<T> implements Watcher<T> {
  readonly #source: Readable<T>;
  #seenRevision = -1;
  #reading = false;
  /** Ends a pending `next()`. */
  #interrupt: ((reason: unknown) => void) | undefined;
  #disposed = false;

  constructor(source: Readable<T>) {
    this.#source = source;
  }

  async next(signal: AbortSignal): Promise<T> {
    if (this.#disposed) throw new Error('watching a value: this watcher is disposed');
    if (this.#reading) {
      throw new Error(
        'watching a value: another next() is pending on this watcher; each reader needs its own',
      );
    }
    signal.throwIfAborted();
    this.#reading = true;
    try {
      return await this.#newest(signal);
    } finally {
      this.#reading = false;
    }
  }

  [Symbol.dispose](): void {
    this.#disposed = true;
    this.#interrupt?.(new Error('watching a value: the watcher was disposed while next() was pending'));
  }

  async #newest(signal: AbortSignal): Promise<T> {
    for (;;) {
      const fresh = this.#take();
      if (fresh.set) return fresh.value;
      // The value is read after the wake-up, not when it is set. So after several sets in a row, the reader
      // gets only the newest value.
      await this.#woken(signal);
    }
  }

  #take(): Peeked<T> {
    const { revision } = this.#source;
    if (revision <= this.#seenRevision) return { set: false };
    this.#seenRevision = revision; // set even if the read throws: the reader gets the error once
    return this.#source.peek();
  }

  #woken(signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const onAbort = (): void => settle(() => reject(signal.reason));
    const subscription = this.#source.subscribe(() => settle(resolve));
    const settle = (how: () => void): void => {
      subscription[Symbol.dispose]();
      signal.removeEventListener('abort', onAbort);
      this.#interrupt = undefined;
      how();
    };
    this.#interrupt = (reason) => settle(() => reject(reason));
    // The signal may have fired since the caller checked it. A combined readable wakes its reader whenever one source
    // changes. If another source has no value yet, the reader has to wait again.
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    return promise;
  }
}
