import type { Clock } from '../../../internal/clock/index.ts';
import { sourcePathOf, type SourcePath } from '../../../internal/rpc/index.ts';

/**
 * Parts of the budget that a single source may use in a period. The first three are for an organization, a site and
 * an address. The last three are for the organization, site and address of a client behind a relay, which all count
 * against the share of that relay.
 */
const SHARES = [3 / 4, 1 / 2, 1 / 4, 3 / 16, 3 / 16, 1 / 8] as const;

/**
 * Limits what unauthenticated machines can cause this node to write. A period allows a fixed number of
 * writes; further writes are only counted. The whole budget is available at the start of a period, so that
 * all machines of a rack can start at once. A single source (address, site or organization) can use only its
 * share.
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

  /** Uses one write of the budget of an address, or of a source; false if the budget is used up. */
  tryTake(source: string | SourcePath): boolean {
    this.#refill();
    const path = typeof source === 'string' ? sourcePathOf(source) : source;
    const isTooMuch = path.some(
      (network, level) => (this.#taken.get(network) ?? 0) >= this.#size * (SHARES[level] ?? 1),
    );
    if (this.#left === 0 || isTooMuch) {
      this.#dropped++;
      return false;
    }
    this.#left--;
    for (const network of path) this.#taken.set(network, (this.#taken.get(network) ?? 0) + 1);
    return true;
  }

  /** How many writes were dropped since the last call. */
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
