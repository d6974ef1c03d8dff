import type { Clock } from '../../../internal/clock/index.ts';
import type { KeySpace } from '../../../internal/etcd/index.ts';

/**
 * Leases that let records go by themselves after a time. One lease serves all records of a period, so that thousands of
 * records cost a few leases; a record lives between `keepMs` and `keepMs + periodMs`.
 */
export class RecordLeases {
  readonly #etcd: KeySpace;
  readonly #clock: Clock;
  readonly #keepMs: number;
  readonly #periodMs: number;
  #current: { readonly lease: Promise<bigint>; readonly untilMs: number } | undefined;

  constructor(options: {
    readonly etcd: KeySpace;
    readonly clock: Clock;
    readonly keepMs: number;
    readonly periodMs: number;
  }) {
    this.#etcd = options.etcd;
    this.#clock = options.clock;
    this.#keepMs = options.keepMs;
    this.#periodMs = options.periodMs;
  }

  /** The lease to bind a record to now. */
  async lease(signal: AbortSignal): Promise<bigint> {
    const nowMs = this.#clock.monotonicMs();
    if (this.#current === undefined || nowMs >= this.#current.untilMs) {
      const ttlSeconds = Math.ceil((this.#keepMs + this.#periodMs) / 1000);
      this.#current = {
        lease: this.#etcd.grantLease(ttlSeconds, { signal }),
        untilMs: nowMs + this.#periodMs,
      };
    }
    const taken = this.#current;
    try {
      return await taken.lease;
    } catch (error) {
      if (this.#current === taken) this.#current = undefined;
      throw error;
    }
  }

  /** The lease was refused: a restored etcd does not know it. */
  discard(): void {
    this.#current = undefined;
  }
}
