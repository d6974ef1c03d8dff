import { Backoff } from '../clock/index.ts';

/** A run that was healthy for this long resets the pauses. */
const STAYED_HEALTHY_MS = 10_000;
/** Runs shorter than this that end in a requested restart count as a restart loop. */
const SHORT_RUN_MS = 1000;
const MAX_SHORT_RUNS = 10;

/** The times of a run that has ended; monotonic. */
export interface PastRun {
  readonly startedMs: number;
  readonly healthyMs: number | undefined;
  readonly endedMs: number;
}

/**
 * The pauses between the runs of one runnable: about 0.5 s first, then half as long again each time, at most a minute.
 * After a run that stayed healthy, the next pause has the initial length again.
 */
export class RestartBackoff {
  readonly #backoff: Backoff;
  #shortRuns = 0;

  /** `random` gives numbers in [0, 1). */
  constructor(random: () => number) {
    this.#backoff = new Backoff({ firstMs: 500, factor: 1.5, longestMs: 60_000, random });
  }

  /** The next pause has the initial length again. */
  reset(): void {
    this.#backoff.reset();
  }

  /** How long to wait after a run that failed, in ms. */
  afterFailure(run: PastRun): number {
    this.#resetIfHealthy(run);
    return this.#backoff.nextMs();
  }

  /** A requested restart has no pause. After many short runs in a row, it has a pause, so that other work can run. */
  afterWantedRestart(run: PastRun): number {
    this.#resetIfHealthy(run);
    this.#shortRuns = run.endedMs - run.startedMs < SHORT_RUN_MS ? this.#shortRuns + 1 : 0;
    return this.#shortRuns > MAX_SHORT_RUNS ? this.#backoff.nextMs() : 0;
  }

  #resetIfHealthy({ healthyMs, endedMs }: PastRun): void {
    if (healthyMs !== undefined && endedMs - healthyMs >= STAYED_HEALTHY_MS) this.reset();
  }
}
