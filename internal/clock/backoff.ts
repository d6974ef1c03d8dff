interface BackoffOptions {
  readonly firstMs: number;
  readonly factor: number;
  readonly longestMs: number;
  /**
   * Returns numbers in [0, 1). Each pause is the mean ±50 %, so that clients that failed together do not
   * retry together.
   */
  readonly random?: () => number;
}

/** Pauses between attempts: `firstMs`, then longer by `factor` each time, at most `longestMs`. */
export class Backoff {
  readonly #options: BackoffOptions;
  #meanMs: number;

  constructor(options: BackoffOptions) {
    this.#options = options;
    this.#meanMs = options.firstMs;
  }

  /** Call this after a success: the next pause is `firstMs` again. */
  reset(): void {
    this.#meanMs = this.#options.firstMs;
  }

  /**
   * The pause before the next attempt. `atLeastMs` is the pause that the server requested; jitter applies
   * to it too.
   */
  nextMs(atLeastMs = 0): number {
    const { factor, longestMs, random } = this.#options;
    const spread = random === undefined ? 1 : 0.5 + random();
    const pauseMs = Math.min(longestMs, this.#meanMs * spread);
    this.#meanMs = Math.min(longestMs, this.#meanMs * factor);
    return Math.round(Math.max(pauseMs, atLeastMs * spread));
  }
}
