import { withTimeout } from '../../../internal/cleanup/index.ts';
import type { Clock } from '../../../internal/clock/index.ts';

const READ_MS = 10_000;

/**
 * One expensive read for all concurrent callers. Each caller gets what was read after its call began: callers that come while
 * a read is running share the next one.
 */
export class SharedRead<T> {
  readonly #read: (signal: AbortSignal) => Promise<T>;
  readonly #clock: Clock;
  readonly #abort = new AbortController();
  #running: Promise<unknown> = Promise.resolve();
  #next: Promise<T> | undefined;

  constructor(clock: Clock, read: (signal: AbortSignal) => Promise<T>) {
    this.#clock = clock;
    this.#read = read;
  }

  /** The result of the next read. */
  get(): Promise<T> {
    this.#next ??= this.#afterRunning();
    return this.#next;
  }

  async #afterRunning(): Promise<T> {
    await this.#running.catch(() => undefined);
    const { signal } = this.#abort;
    const limit = { what: 'reading for all callers', ms: READ_MS, clock: this.#clock, signal };
    const reading = withTimeout(limit, (child) => this.#read(child));
    this.#running = reading;
    this.#next = undefined;
    return await reading;
  }
}
