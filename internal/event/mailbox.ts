/**
 * A bounded queue from many senders to one reader, for a series such as tasks or log lines. `push()` tells a sender when
 * the queue is full.
 */
export class Mailbox<T> {
  readonly #capacity: number;
  readonly #items: T[] = [];
  #end: { readonly error: unknown } | 'done' | undefined;
  #wake = Promise.withResolvers<void>();
  #isRead = false;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  /** @returns false when the queue is full or closed */
  push(item: T): boolean {
    if (this.#end !== undefined || this.#items.length >= this.#capacity) return false;
    this.#items.push(item);
    this.#wake.resolve();
    return true;
  }

  /**
   * The reader gets the queued messages, then its loop ends or throws `error`. Only the first call has an
   * effect.
   */
  close(end: { readonly error: unknown } | 'done' = 'done'): void {
    this.#end ??= end;
    this.#wake.resolve();
  }

  /**
   * Yields each message once, in order. Allows one reader at a time. When the reader stops, the mailbox is
   * closed.
   */
  async *read(signal: AbortSignal): AsyncGenerator<T, void, undefined> {
    if (this.#isRead) throw new Error('mailbox already has a reader');
    this.#isRead = true;
    const onAbort = (): void => this.#wake.resolve();
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      for (;;) {
        signal.throwIfAborted();
        if (this.#items.length > 0) {
          yield this.#items.shift() as T;
          continue;
        }
        if (this.#end === 'done') return;
        if (this.#end !== undefined) throw this.#end.error;
        this.#wake = Promise.withResolvers();
        await this.#wake.promise;
      }
    } finally {
      signal.removeEventListener('abort', onAbort);
      this.#items.length = 0;
      this.close();
    }
  }
}
