import { TimeoutError, withTimeout } from '../../../internal/cleanup/index.ts';
import type { Clock } from '../../../internal/clock/index.ts';
import { EtcdError, type Change, type Entry, type KeySpace } from '../../../internal/etcd/index.ts';
import type { Logger } from '../../../internal/logging/index.ts';
import { NODES_PREFIX, parseNodeKey, records, type NodePart } from '../../../internal/records/index.ts';
import { FeedSubscription } from './feed-subscription.ts';
import type { NodeView } from './node-wire.ts';

/** Deletions that are remembered, for watches that resume; older ones make a watch re-list. */
const MAX_TOMBSTONES = 4096;
/** How far a curator may lag behind another one until a watch that comes from there is told everything anew. */
const LAG_MS = 2_000;

interface Parts {
  record?: Entry;
  status?: Entry;
  heartbeat?: Entry;
}

/**
 * What etcd says about all nodes, as it comes: one watch in etcd serves every watch of every caller. It is a cache that
 * can be lost at any time; no decision is made from it.
 *
 * ```
 * etcd ──one watch──▶ NodeFeed ──▶ FeedSubscription (marks what changed, reads it when its caller is ready)
 * ```
 */
export class NodeFeed {
  readonly #etcd: KeySpace;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #nodes = new Map<string, Parts>();
  /** The revision of the last change of each node; of deleted ones too, while they are remembered. */
  readonly #changedAt = new Map<string, bigint>();
  readonly #subscriptions = new Set<FeedSubscription>();
  /** Those that want one node only: a change of it must not cost a look at thousands of others. */
  readonly #ofNode = new Map<string, Set<FeedSubscription>>();
  readonly #onTouched: (nodeIds: Iterable<string>) => void;
  #revision = 0n;
  /** Everything that happened after this revision is known. */
  #knownSince = 0n;
  #moved = Promise.withResolvers<void>();
  #isListed = false;
  #isInterrupted = false;

  /** `onTouched` is told which nodes changed, before their watchers are. */
  constructor(options: {
    readonly etcd: KeySpace;
    readonly clock: Clock;
    readonly log: Logger;
    readonly onTouched: (nodeIds: Iterable<string>) => void;
  }) {
    this.#onTouched = options.onTouched;
    this.#etcd = options.etcd;
    this.#clock = options.clock;
    this.#log = options.log;
  }

  get revision(): bigint {
    return this.#revision;
  }

  /** Follows etcd until the signal fires. */
  async run(signal: AbortSignal): Promise<void> {
    try {
      for await (const event of this.#etcd.watch(NODES_PREFIX, { signal, withProgress: true })) {
        if (event.kind === 'relist') this.#relist(event.entries, event.revision);
        else if (event.kind === 'changes') this.#apply(event.changes, event.revision);
        else if (event.kind === 'progress') this.#revision = event.revision;
        if (event.kind === 'interrupted') this.#interrupt(event.error);
        else this.#isInterrupted = false;
      }
    } finally {
      for (const each of this.#everybody()) each.fail(signal.reason);
    }
  }

  /**
   * Starts to follow: everything first, or only what came after a revision that is still known. Waits until the feed
   * has listed once, and for a revision that was seen at a faster curator: nobody is shown the past again.
   */
  async subscribe(
    options: { readonly nodeId?: string | undefined; readonly afterRevision?: bigint | undefined },
    signal: AbortSignal,
  ): Promise<FeedSubscription> {
    const after = options.afterRevision;
    await this.#reach(after ?? 0n, signal);
    const resumes = after !== undefined && after >= this.#knownSince && after <= this.#revision;
    const changed = this.#changedSince(resumes ? after : undefined, options.nodeId);
    const group = this.#groupOf(options.nodeId);
    const subscription = new FeedSubscription({
      relist: !resumes,
      changed,
      isWanted: (nodeId) => options.nodeId === undefined || options.nodeId === nodeId,
      view: (nodeId) => this.view(nodeId),
      revision: () => this.#revision,
      onClose: () => {
        group.delete(subscription);
        if (options.nodeId !== undefined && group.size === 0) this.#ofNode.delete(options.nodeId);
      },
    });
    group.add(subscription);
    return subscription;
  }

  /** All nodes as this curator knows them, for what decides nothing. */
  all(): readonly NodeView[] {
    return [...this.#nodes.keys()].flatMap((nodeId) => this.view(nodeId) ?? []);
  }

  /** undefined while there is no record of the node; throws `records-invalid`. */
  view(nodeId: string): NodeView | undefined {
    return nodeViewFrom(this.#nodes.get(nodeId) ?? {});
  }

  /** Whoever wants one node only must not pay for thousands of others: they all come at once after an outage. */
  #changedSince(after: bigint | undefined, nodeId: string | undefined): readonly string[] {
    const isNew = (at: bigint | undefined): boolean =>
      at !== undefined && (after === undefined || at > after);
    if (nodeId !== undefined) return isNew(this.#changedAt.get(nodeId)) ? [nodeId] : [];
    return [...this.#changedAt].filter(([, at]) => isNew(at)).map(([each]) => each);
  }

  async #reach(revision: bigint, signal: AbortSignal): Promise<void> {
    const isThere = (): boolean => this.#isListed && this.#revision >= revision;
    if (isThere()) return;
    try {
      await withTimeout({ what: 'following etcd', ms: LAG_MS, clock: this.#clock, signal }, async (child) => {
        while (!isThere() && !child.aborted) await this.#moved.promise;
      });
    } catch (error) {
      // A position that nobody gave out is told everything anew; a feed that knows nothing yet has nothing to tell.
      if (!(error instanceof TimeoutError)) throw error;
      if (!this.#isListed) throw new EtcdError('etcd-unavailable', 'listing all nodes', { cause: error });
    }
  }

  #wake(): void {
    this.#moved.resolve();
    this.#moved = Promise.withResolvers();
  }

  #relist(entries: readonly Entry[], revision: bigint): void {
    this.#nodes.clear();
    this.#changedAt.clear();
    for (const entry of entries) this.#put(entry);
    this.#revision = revision;
    this.#knownSince = revision;
    this.#log.info('listed all nodes', { nodes: this.#nodes.size, revision });
    this.#isListed = true;
    this.#wake();
    this.#onTouched(this.#nodes.keys());
    for (const each of this.#everybody()) each.relist(this.#nodes.keys());
  }

  #apply(changes: readonly Change[], revision: bigint): void {
    const touched = new Set<string>();
    for (const change of changes) {
      const nodeId =
        change.kind === 'put' ? this.#put(change.entry) : this.#remove(change.key, change.modRevision);
      if (nodeId !== undefined) touched.add(nodeId);
    }
    this.#revision = revision;
    this.#wake();
    this.#forgetOldTombstones();
    this.#onTouched(touched);
    for (const each of this.#subscriptions) each.markChanged(touched);
    for (const nodeId of touched)
      for (const each of this.#ofNode.get(nodeId) ?? []) each.markChanged([nodeId]);
  }

  /** Callers must not wait at a curator whose etcd is gone: their watches end, and they go on at another one. */
  #interrupt(error: unknown): void {
    const watches = this.#everybody();
    if (!this.#isInterrupted)
      this.#log.warn('etcd does not answer: all watches end', { error, watches: watches.length });
    this.#isInterrupted = true;
    for (const each of watches) each.fail(error);
  }

  #everybody(): readonly FeedSubscription[] {
    return [...this.#subscriptions, ...[...this.#ofNode.values()].flatMap((group) => [...group])];
  }

  #groupOf(nodeId: string | undefined): Set<FeedSubscription> {
    if (nodeId === undefined) return this.#subscriptions;
    const group = this.#ofNode.get(nodeId) ?? new Set();
    this.#ofNode.set(nodeId, group);
    return group;
  }

  #put(entry: Entry): string | undefined {
    const parsed = parseNodeKey(entry.key);
    if (parsed === undefined) return undefined;
    const parts = this.#nodes.get(parsed.nodeId) ?? {};
    parts[parsed.part] = entry;
    this.#nodes.set(parsed.nodeId, parts);
    this.#touch(parsed.nodeId, entry.modRevision);
    return parsed.nodeId;
  }

  #remove(key: string, modRevision: bigint): string | undefined {
    const parsed = parseNodeKey(key);
    const parts = parsed === undefined ? undefined : this.#nodes.get(parsed.nodeId);
    if (parsed === undefined || parts === undefined) return undefined;
    delete parts[parsed.part];
    if (Object.keys(parts).length === 0) this.#nodes.delete(parsed.nodeId);
    this.#touch(parsed.nodeId, modRevision);
    return parsed.nodeId;
  }

  /** Re-inserting keeps the map in the order of changes. */
  #touch(nodeId: string, revision: bigint): void {
    this.#changedAt.delete(nodeId);
    this.#changedAt.set(nodeId, revision);
  }

  #forgetOldTombstones(): void {
    let excess = this.#changedAt.size - this.#nodes.size - MAX_TOMBSTONES;
    for (const [nodeId, at] of this.#changedAt) {
      if (excess <= 0) return;
      if (this.#nodes.has(nodeId)) continue;
      this.#changedAt.delete(nodeId);
      if (at > this.#knownSince) this.#knownSince = at;
      excess--;
    }
  }
}

/** A node from the entries of its parts. */
export function nodeViewFrom(parts: Readonly<Partial<Record<NodePart, Entry>>>): NodeView | undefined {
  const { record, status, heartbeat } = parts;
  if (record === undefined) return undefined;
  return {
    record: records.node.decode(record.key, record.value),
    recordRevision: record.modRevision,
    status: status === undefined ? undefined : records.status.decode(status.key, status.value),
    isAlive: heartbeat !== undefined,
  };
}
