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

export class SystemClock implements Clock {
  nowMs(): number {
    return Date.now();
  }

  monotonicMs(): number {
    return performance.now();
  }

  async sleep(ms: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    try {
      await delay(ms, undefined, { signal });
    } catch (error) {
      signal.throwIfAborted();
      throw error;
    }
  }
}
