import type { Clock } from '../clock/index.ts';
import { RpcError } from './errors.ts';
import { SourceTree } from './source-tree.ts';
import { sourcePathOf, type SourcePath } from './source-path.ts';

/** The limits of a `FairQueue`. */
export interface FairQueueOptions {
  /** Slots: how many may be active at the same time. */
  readonly maxActive: number;
  /**
   * The maximum number of callers that wait for a slot. Beyond this limit, the newest caller of the source with the
   * most waiting callers is refused.
   */
  readonly maxWaiting: number;
  readonly clock: Clock;
}

/**
 * The largest share of all slots for one source, by the levels of its path (`SourcePath`). The first three levels are
 * the networks of a direct client or of a relay, the widest network first. The last three levels are the networks of a
 * client behind a relay; all clients of a relay together have the share of the relay. The shares are below 1, so a
 * source that stalls leaves slots to others.
 */
const MAX_SHARES = [3 / 4, 3 / 4, 3 / 8, 9 / 32, 9 / 32, 3 / 16] as const;

interface Waiting {
  readonly path: SourcePath;
  readonly accept: () => void;
  readonly refuse: (error: unknown) => void;
}

/**
 * A bounded queue for slots, fair among source addresses. The source with the fewest active slots is next, by network
 * first and then by address, so that many connections or many addresses of one client do not keep others waiting.
 *
 * ```
 * acquire ─▶ waiting (full: the largest source loses its newest) ─▶ active (smallest source first) ─▶ dispose
 * ```
 */
export class FairQueue {
  readonly #options: FairQueueOptions;
  readonly #waiting = new SourceTree<Waiting>();
  readonly #heldBySource = new Map<string, number>();
  #held = 0;
  #averageHeldMs = 0;

  constructor(options: FairQueueOptions) {
    this.#options = options;
  }

  /** How many slots are in use. */
  get active(): number {
    return this.#held;
  }

  /** How many wait for a slot. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** How long a new caller would wait, estimated from how long slots were held recently; ms. */
  get estimatedWaitMs(): number {
    return Math.round((this.#waiting.size * this.#averageHeldMs) / this.#options.maxActive);
  }

  /**
   * Waits for a slot, which the caller disposes.
   * @param source an address, or the path of a source
   * @throws RpcError `rpc-crowded` when the queue is full and this source has most of it; the signal's reason
   */
  async acquire(source: string | SourcePath, signal: AbortSignal): Promise<Disposable> {
    signal.throwIfAborted();
    const path = typeof source === 'string' ? sourcePathOf(source) : source;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const self: Waiting = { path, accept: resolve, refuse: reject };
    const onAbort = (): void => {
      if (this.#waiting.remove(path, self)) reject(signal.reason);
    };
    this.#waiting.add(path, self);
    this.#serve();
    this.#refuseExcess();
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      await promise;
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
    return this.#slot(path);
  }

  #slot(path: SourcePath): Disposable {
    const { clock } = this.#options;
    const sinceMs = clock.monotonicMs();
    let held = true;
    return {
      [Symbol.dispose]: () => {
        if (!held) return;
        held = false;
        const tookMs = clock.monotonicMs() - sinceMs;
        this.#averageHeldMs = this.#averageHeldMs === 0 ? tookMs : this.#averageHeldMs * 0.9 + tookMs * 0.1;
        this.#count(path, -1);
        this.#serve();
      },
    };
  }

  #serve(): void {
    while (this.#held < this.#options.maxActive) {
      const next = this.#waiting.oldestOfLeast((source, level) => {
        const held = this.#heldBySource.get(source) ?? 0;
        return held < this.#maxAt(level) ? held : undefined;
      });
      if (next === undefined) return;
      this.#waiting.recordServed(next.path);
      this.#waiting.remove(next.path, next);
      this.#count(next.path, 1);
      next.accept();
    }
  }

  #refuseExcess(): void {
    while (this.#waiting.size > this.#options.maxWaiting) {
      const last = this.#waiting.newestOfLargest();
      if (last === undefined) return;
      this.#waiting.remove(last.path, last);
      last.refuse(
        new RpcError('rpc-crowded', `waiting for a slot: ${this.#options.maxWaiting} others are waiting`),
      );
    }
  }

  #maxAt(level: number): number {
    return Math.max(1, Math.floor(this.#options.maxActive * (MAX_SHARES[level] ?? 1)));
  }

  #count(path: SourcePath, by: 1 | -1): void {
    this.#held += by;
    for (const source of path) {
      const held = (this.#heldBySource.get(source) ?? 0) + by;
      if (held === 0) this.#heldBySource.delete(source);
      else this.#heldBySource.set(source, held);
    }
  }
}
