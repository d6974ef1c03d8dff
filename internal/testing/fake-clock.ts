import type { Clock } from '../clock/index.ts';

/** A clock whose time changes only when the test advances it. */
export class FakeClock implements Clock {
  #nowMs: number;
  #sleepers: { readonly atMs: number; readonly wake: () => void }[] = [];

  constructor(startMs = Date.UTC(2026, 0, 1)) {
    this.#nowMs = startMs;
  }

  nowMs(): number {
    return this.#nowMs;
  }

  monotonicMs(): number {
    return this.#nowMs;
  }

  /** The number of pending sleeps. Zero at the end of a test means that no timer was left. */
  get sleeping(): number {
    return this.#sleepers.length;
  }

  sleep(ms: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.reject(signal.reason as Error);
    return new Promise((resolve, reject) => {
      const onAbort = (): void => {
        this.#sleepers = this.#sleepers.filter((each) => each !== sleeper);
        reject(signal.reason as Error);
      };
      const sleeper = {
        atMs: this.#nowMs + ms,
        wake: () => {
          signal.removeEventListener('abort', onAbort);
          resolve();
        },
      };
      signal.addEventListener('abort', onAbort, { once: true });
      this.#sleepers.push(sleeper);
    });
  }

  /** Advances time from sleeper to sleeper, and lets each woken task run until it waits again. */
  async advance(ms: number): Promise<void> {
    const untilMs = this.#nowMs + ms;
    await settle();
    for (;;) {
      const next = this.#sleepers.filter((each) => each.atMs <= untilMs).sort((a, b) => a.atMs - b.atMs)[0];
      if (next === undefined) break;
      this.#nowMs = Math.max(this.#nowMs, next.atMs);
      this.#sleepers = this.#sleepers.filter((each) => each !== next);
      next.wake();
      await settle();
    }
    this.#nowMs = untilMs;
    await settle();
  }
}

/** Runs all pending work that needs no time to pass. */
export async function settle(): Promise<void> {
  for (let iteration = 0; iteration < 20; iteration++)
    await new Promise<void>((resolve) => setImmediate(resolve));
}

/** Runs the event loop until the condition holds, for work of another thread such as a signature. */
export async function settleUntil(isSo: () => boolean): Promise<void> {
  for (let iteration = 0; !isSo(); iteration++) {
    if (iteration === 1_000_000) throw new Error('the condition does not hold after 1000000 iterations');
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
}
