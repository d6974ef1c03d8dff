import type { Clock } from '../../internal/clock/index.ts';

/**
 * How much strangers can make this node write: so many per period, and what is too much is counted. Refilled all at once,
 * so that a whole rack that is switched on at the same time fits.
 */
export class Budget {
  readonly #clock: Clock;
  readonly #size: number;
  readonly #periodMs: number;
  #left: number;
  #untilMs: number;
  #dropped = 0;

  constructor(options: { readonly clock: Clock; readonly size: number; readonly periodMs: number }) {
    this.#clock = options.clock;
    this.#size = options.size;
    this.#periodMs = options.periodMs;
    this.#left = options.size;
    this.#untilMs = options.clock.monotonicMs() + options.periodMs;
  }

  /** Whether there was some left. */
  take(): boolean {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs >= this.#untilMs) {
      this.#untilMs = nowMs + this.#periodMs;
      this.#left = this.#size;
    }
    if (this.#left === 0) {
      this.#dropped++;
      return false;
    }
    this.#left--;
    return true;
  }

  /** How many found nothing left since this was last asked. */
  takeDropped(): number {
    const dropped = this.#dropped;
    this.#dropped = 0;
    return dropped;
  }
}
