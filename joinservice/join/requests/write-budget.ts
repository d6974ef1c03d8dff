import type { Clock } from '../../../internal/clock/index.ts';
import { sourcePathOf } from '../../../internal/rpc/index.ts';

/** Of everything, what one organisation, one site and one holder of an address may use up in a period. */
const MOST = [3 / 4, 1 / 2, 1 / 4] as const;

/**
 * How much strangers can make this node write: so many per period, and what is too much is counted. Refilled all at once,
 * so that a whole rack that is switched on at the same time fits; and nobody can use up what is there for all.
 */
export class WriteBudget {
  readonly #clock: Clock;
  readonly #size: number;
  readonly #periodMs: number;
  readonly #taken = new Map<string, number>();
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

  /** Whether there was some left for who is at this address. */
  tryTake(address: string): boolean {
    this.#refill();
    const path = sourcePathOf(address);
    const isTooMuch = path.some(
      (source, level) => (this.#taken.get(source) ?? 0) >= this.#size * (MOST[level] ?? 1),
    );
    if (this.#left === 0 || isTooMuch) {
      this.#dropped++;
      return false;
    }
    this.#left--;
    for (const source of path) this.#taken.set(source, (this.#taken.get(source) ?? 0) + 1);
    return true;
  }

  /** How many found nothing left since this was last asked. */
  takeDropped(): number {
    const dropped = this.#dropped;
    this.#dropped = 0;
    return dropped;
  }

  #refill(): void {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs < this.#untilMs) return;
    this.#untilMs = nowMs + this.#periodMs;
    this.#left = this.#size;
    this.#taken.clear();
  }
}
