import { SystemClock } from '../../../internal/clock/index.ts';

/** A minute of this clock is a second's pause, and nobody has to wait. */
export class FastForwardClock extends SystemClock {
  #slept = 0;

  override monotonicMs(): number {
    return super.monotonicMs() + this.#slept;
  }

  override sleep(ms: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    this.#slept += 60 * ms;
    return Promise.resolve();
  }
}
