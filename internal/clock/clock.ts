import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';

/** Time as a port. Nothing else in the project may read `Date` or set a timer. */
export interface Clock {
  /** Wall-clock time in ms since the epoch. May jump; for certificates and records only. */
  nowMs(): number;
  /** Never goes back; for durations and timeouts. */
  monotonicMs(): number;
  /** Resolves after `ms`; rejects with the signal's reason as soon as it fires. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

/** Timers count in 31 bits, 24.8 days; what is longer would fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export class SystemClock implements Clock {
  nowMs(): number {
    return Date.now();
  }

  monotonicMs(): number {
    return performance.now();
  }

  async sleep(ms: number, signal: AbortSignal): Promise<void> {
    if (Number.isNaN(ms)) throw new RangeError('sleeping: NaN is no duration');
    signal.throwIfAborted();
    try {
      for (let leftMs = ms; ; leftMs -= LONGEST_TIMER_MS) {
        await delay(Math.max(0, Math.min(leftMs, LONGEST_TIMER_MS)), undefined, { signal });
        if (leftMs <= LONGEST_TIMER_MS) return;
      }
    } catch (error) {
      signal.throwIfAborted();
      throw error;
    }
  }
}
