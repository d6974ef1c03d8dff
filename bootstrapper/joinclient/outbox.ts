/** A queue of messages for a client stream. */
export class Outbox<T> implements AsyncIterable<T> {
  readonly #messages: T[] = [];
  #wake: () => void = () => undefined;
  #closed = false;

  push(message: T): void {
    this.#messages.push(message);
    this.#wake();
  }

  close(): void {
    this.#closed = true;
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T> {
    for (;;) {
      const next = this.#messages.shift();
      if (next !== undefined) yield next;
      else if (this.#closed) return;
      else await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }
}
