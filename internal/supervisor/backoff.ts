const FIRST_MS = 500;
const FACTOR = 1.5;
const LARGEST_MS = 60_000;
/** A life that was healthy for this long has earned a fresh start after its death. */
const STAYED_HEALTHY_MS = 10_000;
/** Lives shorter than this that end in a wanted restart are hasty. */
const HASTY_MS = 1000;
const HASTY_IN_A_ROW = 10;

/** What a life was like, at its end; monotonic time. */
export interface PastRun {
  readonly startedMs: number;
  readonly healthyMs: number | undefined;
  readonly endedMs: number;
}

/**
 * The pauses between the lives of one runnable: about 0.5 s first, half as long again each time, never
 * more than a minute; back to the first one after a life that stayed healthy.
 */
export class Backoff {
  readonly #random: () => number;
  #meanMs = FIRST_MS;
  #hasty = 0;

  /** `random` gives numbers in [0, 1). */
  constructor(random: () => number) {
    this.#random = random;
  }

  /** The next pause is as short as the first one was. */
  reset(): void {
    this.#meanMs = FIRST_MS;
  }

  afterFailure(life: PastRun): number {
    this.#forgive(life);
    return this.#nextMs();
  }

  /** A wanted restart has no pause, unless one follows the other so fast that nothing else would run. */
  afterWantedRestart(life: PastRun): number {
    this.#forgive(life);
    this.#hasty = life.endedMs - life.startedMs < HASTY_MS ? this.#hasty + 1 : 0;
    return this.#hasty > HASTY_IN_A_ROW ? this.#nextMs() : 0;
  }

  #forgive({ healthyMs, endedMs }: PastRun): void {
    if (healthyMs !== undefined && endedMs - healthyMs >= STAYED_HEALTHY_MS) this.#meanMs = FIRST_MS;
  }

  /** The mean ±50 %, so that what failed together does not come back together. */
  #nextMs(): number {
    const pauseMs = Math.min(LARGEST_MS, Math.round(this.#meanMs * (0.5 + this.#random())));
    this.#meanMs = Math.min(LARGEST_MS, this.#meanMs * FACTOR);
    return pauseMs;
  }
}
