import { childSignal, type ChildSignal } from '../cleanup/index.ts';
import { formatDuration, type Clock } from '../clock/index.ts';
import { AtlsError } from './errors.ts';

/**
 * Limits the time of each step of one connection with a single timer. When the current step is overdue, `signal` fires
 * with `atls-timeout`. When the parent signal fires, `signal` fires with the same reason. A handshake takes about 10ms;
 * a timer for each step would cost more than the steps.
 */
export class Deadline implements Disposable {
  readonly #clock: Clock;
  readonly #child: ChildSignal;
  readonly #timer = new AbortController();
  #step = { what: '', ms: 0, dueMs: 0 };

  /** Starts the timer of the first step. */
  constructor(options: {
    readonly clock: Clock;
    readonly signal: AbortSignal;
    readonly what: string;
    readonly ms: number;
  }) {
    this.#clock = options.clock;
    this.#child = childSignal(options.signal);
    this.next(options.what, options.ms);
    this.#watch().catch(() => undefined); // rejects only when the deadline is disposed
  }

  get signal(): AbortSignal {
    return this.#child.signal;
  }

  /**
   * Starts the next step, which may take `ms`. The new step must not end before the time limit of the current step,
   * because the timer is never shortened.
   */
  next(what: string, ms: number): void {
    this.#step = { what, ms, dueMs: this.#clock.monotonicMs() + ms };
  }

  [Symbol.dispose](): void {
    this.#timer.abort(DISPOSED);
    this.#child[Symbol.dispose]();
  }

  async #watch(): Promise<void> {
    for (;;) {
      const leftMs = this.#step.dueMs - this.#clock.monotonicMs();
      if (leftMs <= 0) break;
      await this.#clock.sleep(leftMs, this.#timer.signal);
    }
    const { what, ms } = this.#step;
    this.#child.abort(new AtlsError('atls-timeout', `${what}: not completed within ${formatDuration(ms)}`));
  }
}

const DISPOSED = new Error('the deadline is no longer needed');
