import { performance } from 'node:perf_hooks';

/** Interface (port) to time. A lint rule forbids `Date` and timers elsewhere. */
export interface Clock {
  /** Wall-clock time in ms since the epoch. May jump; for certificates and records only. */
  nowMs(): number;
  /** A clock that never goes back; for durations and timeouts. */
  monotonicMs(): number;
  /** Resolves after `ms`; rejects with the signal's reason as soon as it fires. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

/**
 * The maximum delay of a Node timer is 31 bits, 24.8 days. A timer with a longer delay would fire at once.
 */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** The clock of this machine. */
export class SystemClock implements Clock {
  nowMs(): number {
    return Date.now();
  }

  monotonicMs(): number {
    return performance.now();
  }

  async sleep(ms: number, signal: AbortSignal): Promise<void> {
    if (Number.isNaN(ms)) throw new RangeError('sleep(NaN)');
    signal.throwIfAborted();
    for (let leftMs = ms; ; leftMs -= LONGEST_TIMER_MS) {
      await timer(Math.max(0, Math.min(leftMs, LONGEST_TIMER_MS)), signal);
      if (leftMs <= LONGEST_TIMER_MS) return;
    }
  }
}

/** Resolves in the next iteration of the event loop, after pending socket I/O. */
export function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}

/** Like `node:timers/promises`, but with a third less CPU time. Idle programs do little else than sleep. */
function timer(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      clearTimeout(running);
      reject(signal.reason as Error);
    };
    const running = setTimeout(() => {
      signal.removeEventListener('abort', onAbort);
      resolve();
    }, ms);
    signal.addEventListener('abort', onAbort, { once: true });
  });
}
