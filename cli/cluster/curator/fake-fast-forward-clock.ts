import { SystemClock } from '../../../internal/clock/index.ts';

/**
 * Sleeps up to this long are pauses between polls. Longer ones are time limits of connections, and real
 * sockets need real time.
 */
const LONGEST_POLL_MS = 2_000;

/** Pauses between polls end at once. Each advances the clock by `factor` times its length. */
export class FastForwardClock extends SystemClock {
  readonly #factor: number;
  #slept = 0;

  constructor(factor = 60) {
    super();
    this.#factor = factor;
  }

  override monotonicMs(): number {
    return super.monotonicMs() + this.#slept;
  }

  override sleep(ms: number, signal: AbortSignal): Promise<void> {
    if (ms > LONGEST_POLL_MS) return super.sleep(ms, signal);
    signal.throwIfAborted();
    this.#slept += this.#factor * ms;
    return Promise.resolve();
  }
}
