import { SystemClock } from '../../../internal/clock/index.ts';

/**
 * Sleeps up to this long are pauses between polls. Longer ones are time limits of connections, and real
 * sockets need real time.
 */
const LONGEST_POLL_MS = 2_000;

/** Pauses between polls end at once, and each second of a pause advances the clock by a minute. */
export class FastForwardClock extends SystemClock {
  #slept = 0;

  override monotonicMs(): number {
    return super.monotonicMs() + this.#slept;
  }

  override sleep(ms: number, signal: AbortSignal): Promise<void> {
    if (ms > LONGEST_POLL_MS) return super.sleep(ms, signal);
    signal.throwIfAborted();
    this.#slept += 60 * ms;
    return Promise.resolve();
  }
}
