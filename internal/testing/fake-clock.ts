import type { Clock } from '../clock/index.ts';

/** Time that moves only when a test says so. */
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

  /** How many sleepers wait. Zero at the end of a test means that no timer survived it. */
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

  /** Moves time in the order of the sleepers and lets each woken one run until it waits again. */
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

/** Lets everything run that can run without time passing. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
}

/** As many turns as something takes that is done by another thread, like a signature. */
export async function settleUntil(isSo: () => boolean): Promise<void> {
  for (let turn = 0; !isSo(); turn++) {
    if (turn === 1_000_000) throw new Error('it has not come to that');
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
}
