import type { Clock } from '../../../internal/clock/index.ts';

/** How often a machine may ask from one source within `PERIOD_MS`. An agent whose disk is closed asks about 20 times in that time, after refusals less often. */
const MAX_ASKED = 40;
const PERIOD_MS = 10 * 60_000;
/** Beyond this number of machines and sources, those that have asked longest ago are forgotten. */
const MAX_KNOWN = 16_384;

/**
 * Limits how often the signer is asked for the share of a machine. By source too, because anybody can claim to be the machine: claims from elsewhere
 * use nothing of its own budget.
 */
export class ShareBudget {
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #asked = new Map<string, { readonly untilMs: number; count: number }>();

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock;
  }

  /** Counts a request; false if there were too many. */
  tryTake(identity: string, source: string): boolean {
    const nowMs = this.#clock.monotonicMs();
    const key = `${identity} ${source}`;
    const before = this.#asked.get(key);
    const now =
      before !== undefined && nowMs < before.untilMs ? before : { untilMs: nowMs + PERIOD_MS, count: 0 };
    if (now.count >= MAX_ASKED) return false;
    now.count++;
    this.#asked.delete(key);
    this.#asked.set(key, now);
    const [oldest] = this.#asked.keys();
    if (this.#asked.size > MAX_KNOWN && oldest !== undefined) this.#asked.delete(oldest);
    return true;
  }
}
