import type { Clock } from '../clock/index.ts';
import { RpcError } from './errors.ts';
import { SourceTree } from './source-tree.ts';
import { sourcePathOf, type SourcePath } from './source-path.ts';

export interface FairQueueOptions {
  /** How many are served at the same time. */
  readonly maxActive: number;
  /** How many wait for a place; beyond that the newest one of whoever has most in here is sent away. */
  readonly maxWaiting: number;
  readonly clock: Clock;
}

/** Of all places, what one organisation, one site and one holder may have: who stalls in all of his leaves the rest free. */
const MOST = [3 / 4, 3 / 4, 3 / 8] as const;

interface Waiting {
  readonly path: SourcePath;
  readonly admit: () => void;
  readonly refuse: (error: unknown) => void;
}

/**
 * A waiting room before work that is dear, and places in it that are not. Whoever holds least is served next, by network
 * first and by address then, so that many connections or many addresses of one stranger keep nobody else out.
 *
 * ```
 * enter ─▶ waiting (bounded: the one with most loses its newest) ─▶ place (the one with least goes first) ─▶ dispose
 * ```
 */
export class FairQueue {
  readonly #options: FairQueueOptions;
  readonly #waiting = new SourceTree<Waiting>();
  readonly #heldBySource = new Map<string, number>();
  #held = 0;
  #servedMs = 0;

  constructor(options: FairQueueOptions) {
    this.#options = options;
  }

  /** How many have a place. */
  get active(): number {
    return this.#held;
  }

  /** How many wait for one. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** About how long somebody waits who comes now, from how long places were held of late; in ms. */
  get estimatedWaitMs(): number {
    return Math.round((this.#waiting.size * this.#servedMs) / this.#options.maxActive);
  }

  /**
   * Resolves with a place, to be disposed. Rejects with the signal's reason, or with `rpc-crowded` when more wait than may
   * and this one's source has most of them.
   */
  async acquire(address: string, signal: AbortSignal): Promise<Disposable> {
    signal.throwIfAborted();
    const path = sourcePathOf(address);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const self: Waiting = { path, admit: resolve, refuse: reject };
    const onAbort = (): void => {
      if (this.#waiting.remove(path, self)) reject(signal.reason);
    };
    this.#waiting.add(path, self);
    this.#serve();
    this.#sendAway();
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      await promise;
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
    return this.#place(path);
  }

  #place(path: SourcePath): Disposable {
    const { clock } = this.#options;
    const sinceMs = clock.monotonicMs();
    let held = true;
    return {
      [Symbol.dispose]: () => {
        if (!held) return;
        held = false;
        const tookMs = clock.monotonicMs() - sinceMs;
        this.#servedMs = this.#servedMs === 0 ? tookMs : this.#servedMs * 0.9 + tookMs * 0.1;
        this.#count(path, -1);
        this.#serve();
      },
    };
  }

  #serve(): void {
    while (this.#held < this.#options.maxActive) {
      const next = this.#waiting.oldestOfLeast((source, level) => {
        const held = this.#heldBySource.get(source) ?? 0;
        return held < this.#mostAt(level) ? held : undefined;
      });
      if (next === undefined) return;
      this.#waiting.markServed(next.path);
      this.#waiting.remove(next.path, next);
      this.#count(next.path, 1);
      next.admit();
    }
  }

  #sendAway(): void {
    while (this.#waiting.size > this.#options.maxWaiting) {
      const last = this.#waiting.newestOfLargest();
      if (last === undefined) return;
      this.#waiting.remove(last.path, last);
      last.refuse(
        new RpcError('rpc-crowded', `waiting for a place: ${this.#options.maxWaiting} others wait already`),
      );
    }
  }

  #mostAt(level: number): number {
    return Math.max(1, Math.floor(this.#options.maxActive * (MOST[level] ?? 1)));
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
