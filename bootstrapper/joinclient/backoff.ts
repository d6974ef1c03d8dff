const FIRST_MS = 500;
const FACTOR = 1.6;
const LARGEST_MS = 60_000;

/** Pauses between rounds: half a second first, a minute at most, ±50 %, so that what was refused together does not come back together. */
export class Backoff {
  readonly #random: () => number;
  #meanMs = FIRST_MS;

  /** `random` gives numbers in [0, 1). */
  constructor(random: () => number) {
    this.#random = random;
  }

  /** Somebody answered: the next failure is a new one. */
  reset(): void {
    this.#meanMs = FIRST_MS;
  }

  /** `hintMs`: what the other end asked for; never less than it, and at most ten minutes. */
  nextMs(hintMs = 0): number {
    const spread = 0.5 + this.#random();
    const pauseMs = Math.min(LARGEST_MS, this.#meanMs * spread);
    this.#meanMs = Math.min(LARGEST_MS, this.#meanMs * FACTOR);
    const hint = Number.isFinite(hintMs) ? Math.max(0, Math.min(hintMs, 10 * LARGEST_MS)) : 0;
    return Math.round(Math.max(pauseMs, hint * spread));
  }
}
