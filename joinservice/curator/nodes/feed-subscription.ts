import type { NodeView } from './node-wire.ts';

const BATCH = 256;

/** What one watcher is told at once. */
export interface FeedBatch {
  readonly relist: boolean;
  readonly nodes: readonly NodeView[];
  readonly deletedNodeIds: readonly string[];
  /** The first batch after which nothing was left. */
  readonly caughtUp: boolean;
  /** Everything up to this revision has been told; undefined in the middle of a series. */
  readonly revision: bigint | undefined;
}

/**
 * One watcher's mailbox: the ids of nodes that changed since it last looked. A slow watcher costs a set of ids and skips
 * states in between, never the last one.
 */
export class FeedSubscription implements Disposable {
  readonly #source: FeedSubscriptionSource;
  readonly #changed: Set<string>;
  #relist: boolean;
  #isCaughtUp = false;
  #failure: { readonly error: unknown } | undefined;
  #wake = Promise.withResolvers<void>();

  constructor(source: FeedSubscriptionSource) {
    this.#source = source;
    this.#relist = source.relist;
    this.#changed = new Set(source.changed.filter((nodeId) => source.isWanted(nodeId)));
  }

  [Symbol.dispose](): void {
    this.#source.onClose();
  }

  /** The next batch; the first one comes at once, later ones when something has changed. */
  async next(signal: AbortSignal): Promise<FeedBatch> {
    const onAbort = (): void => this.#wake.resolve();
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      for (;;) {
        signal.throwIfAborted();
        if (this.#failure !== undefined) throw this.#failure.error;
        if (this.#changed.size > 0 || this.#relist || !this.#isCaughtUp) return this.#take();
        this.#wake = Promise.withResolvers();
        await this.#wake.promise;
      }
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  markChanged(nodeIds: Iterable<string>): void {
    for (const nodeId of nodeIds) if (this.#source.isWanted(nodeId)) this.#changed.add(nodeId);
    this.#wake.resolve();
  }

  /** Everything known before is void. */
  relist(nodeIds: Iterable<string>): void {
    this.#relist = true;
    this.#isCaughtUp = false;
    this.#changed.clear();
    this.markChanged(nodeIds);
  }

  fail(error: unknown): void {
    this.#failure = { error };
    this.#wake.resolve();
  }

  #take(): FeedBatch {
    const nodes: NodeView[] = [];
    const deletedNodeIds: string[] = [];
    for (const nodeId of [...this.#changed].slice(0, BATCH)) {
      this.#changed.delete(nodeId);
      const view = this.#source.view(nodeId);
      if (view !== undefined) nodes.push(view);
      else if (!this.#relist) deletedNodeIds.push(nodeId);
    }
    const isAll = this.#changed.size === 0;
    const caughtUp = isAll && !this.#isCaughtUp;
    const batch = {
      relist: this.#relist,
      nodes,
      deletedNodeIds,
      caughtUp,
      revision: isAll ? this.#source.revision() : undefined,
    };
    this.#relist = false;
    if (isAll) this.#isCaughtUp = true;
    return batch;
  }
}

/** What a subscription needs of the feed. */
export interface FeedSubscriptionSource {
  readonly relist: boolean;
  readonly changed: readonly string[];
  readonly isWanted: (nodeId: string) => boolean;
  readonly view: (nodeId: string) => NodeView | undefined;
  readonly revision: () => bigint;
  readonly onClose: () => void;
}
