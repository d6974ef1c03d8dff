import type { Clock } from '../../../internal/clock/index.ts';
import type { KeySpace } from '../../../internal/etcd/index.ts';

/**
 * etcd leases with which records expire. All records of a period share one lease, so that thousands of records need few leases;
 * a record expires between `keepMs` and `keepMs + periodMs` after it was written.
 */
export class RecordLeases {
  readonly #options: RecordLeaseOptions;
  #current: { readonly lease: Promise<bigint>; readonly untilMs: number } | undefined;

  constructor(options: RecordLeaseOptions) {
    this.#options = options;
  }

  /** The lease for a record that is written now. */
  async lease(signal: AbortSignal): Promise<bigint> {
    const { etcd, clock, keepMs, periodMs } = this.#options;
    const nowMs = clock.monotonicMs();
    if (this.#current === undefined || nowMs >= this.#current.untilMs) {
      const ttlSeconds = Math.ceil((keepMs + periodMs) / 1000);
      this.#current = { lease: etcd.grantLease(ttlSeconds, { signal }), untilMs: nowMs + periodMs };
    }
    const taken = this.#current;
    try {
      return await taken.lease;
    } catch (error) {
      if (this.#current === taken) this.#current = undefined;
      throw error;
    }
  }

  /**
   * Makes the next call grant a new lease. Called if etcd does not know the current lease because etcd was
   * restored.
   */
  discard(): void {
    this.#current = undefined;
  }
}

interface RecordLeaseOptions {
  readonly etcd: KeySpace;
  readonly clock: Clock;
  readonly keepMs: number;
  readonly periodMs: number;
}
