import { withTimeout } from '../../../internal/cleanup/index.ts';
import type { Clock } from '../../../internal/clock/index.ts';

const READ_MS = 10_000;

/**
 * The same dear read for all who ask at the same time. Everybody gets what was read after he had asked: who comes while
 * one is under way shares the next one.
 */
export class SharedRead<T> {
  readonly #read: (signal: AbortSignal) => Promise<T>;
  readonly #clock: Clock;
  readonly #life = new AbortController();
  #running: Promise<unknown> = Promise.resolve();
  #next: Promise<T> | undefined;

  constructor(options: { readonly read: (signal: AbortSignal) => Promise<T>; readonly clock: Clock }) {
    this.#read = options.read;
    this.#clock = options.clock;
  }

  get(): Promise<T> {
    this.#next ??= this.#afterRunning();
    return this.#next;
  }

  async #afterRunning(): Promise<T> {
    await this.#running.catch(() => undefined);
    const limit = {
      what: 'reading for all who ask',
      ms: READ_MS,
      clock: this.#clock,
      signal: this.#life.signal,
    };
    const reading = withTimeout(limit, (signal) => this.#read(signal));
    this.#running = reading;
    this.#next = undefined;
    return await reading;
  }
}
