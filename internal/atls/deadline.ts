import { childSignal, type ChildSignal } from '../cleanup/index.ts';
import type { Clock } from '../clock/index.ts';
import { AtlsError } from './errors.ts';

/**
 * The time that one connection has, step after step, on one timer: its signal fires with `atls-timeout` when the
 * present step is overdue, and with the parent's reason when that fires. Ten milliseconds is how long a connection
 * takes as a rule, so arming and disarming a timer for each step would cost more than the steps.
 */
export class Deadline implements Disposable {
  readonly #clock: Clock;
  readonly #child: ChildSignal;
  readonly #timer = new AbortController();
  #step = { what: '', ms: 0, dueMs: 0 };

  /** The first step begins now. */
  constructor(options: {
    readonly clock: Clock;
    readonly signal: AbortSignal;
    readonly what: string;
    readonly ms: number;
  }) {
    this.#clock = options.clock;
    this.#child = childSignal(options.signal);
    this.next(options.what, options.ms);
    this.#watch().catch(() => undefined); // the sleep rejects when disposed, and for no other reason
  }

  get signal(): AbortSignal {
    return this.#child.signal;
  }

  /** The next step has `ms` from now. It must not end before the present one would have. */
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
    this.#child.abort(new AtlsError('atls-timeout', `${what}: not done within ${ms} ms`));
  }
}

const DISPOSED = new Error('the deadline is no longer needed');
