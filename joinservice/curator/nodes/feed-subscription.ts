import type { NodeView } from './node-wire.ts';

const BATCH = 256;

/** Changes that are sent to a watcher together. */
export interface FeedBatch {
  readonly relist: boolean;
  readonly nodes: readonly NodeView[];
  readonly deletedNodeIds: readonly string[];
  /** True in the first batch after which no changes are pending. */
  readonly caughtUp: boolean;
  /** Everything up to this revision has been sent; undefined while batches remain. */
  readonly revision: bigint | undefined;
}

/**
 * The pending changes of one watcher, as a set of node IDs. A slow watcher uses only the memory of that set.
 * It misses intermediate states, but never the latest state of a node.
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

  /** Returns the next batch: the first one at once, a later one when something has changed. */
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

  /** Adds nodes to the pending changes. */
  addChanged(nodeIds: Iterable<string>): void {
    for (const nodeId of nodeIds) if (this.#source.isWanted(nodeId)) this.#changed.add(nodeId);
    this.#wake.resolve();
  }

  /** Starts over: everything is sent again, from a new list. */
  relist(nodeIds: Iterable<string>): void {
    this.#relist = true;
    this.#isCaughtUp = false;
    this.#changed.clear();
    this.addChanged(nodeIds);
  }

  /** Makes `next()` throw. */
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

/** The part of the feed that a subscription uses. */
export interface FeedSubscriptionSource {
  readonly relist: boolean;
  readonly changed: readonly string[];
  readonly isWanted: (nodeId: string) => boolean;
  readonly view: (nodeId: string) => NodeView | undefined;
  readonly revision: () => bigint;
  readonly onClose: () => void;
}
