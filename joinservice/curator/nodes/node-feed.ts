import { TimeoutError, withTimeout } from '../../../internal/cleanup/index.ts';
import type { Clock } from '../../../internal/clock/index.ts';
import { EtcdError, type Change, type Entry, type KeySpace } from '../../../internal/etcd/index.ts';
import type { Logger } from '../../../internal/logging/index.ts';
import { NODES_PREFIX, parseNodeKey, records, type NodePart } from '../../../internal/records/index.ts';
import { FeedSubscription } from './feed-subscription.ts';
import type { NodeView } from './node-wire.ts';

/**
 * Deleted nodes that the feed remembers for resuming watches. A watch that resumes from an earlier revision
 * lists all nodes again.
 */
const MAX_DELETIONS = 4096;
/**
 * How long a resuming watch waits until this curator has the revision of the previous curator. After that the
 * watch lists all nodes again.
 */
const LAG_MS = 2_000;

interface NodeEntries {
  record?: Entry;
  status?: Entry;
  heartbeat?: Entry;
}

interface NodeFeedOptions {
  readonly etcd: KeySpace;
  readonly clock: Clock;
  readonly log: Logger;
  /** Called with the changed nodes before their watchers are woken. */
  readonly onChanged: (nodeIds: Iterable<string>) => void;
}

/**
 * A cache of all nodes from one etcd watch, which serves the watches of all callers. The cache can be lost at any
 * time, and no decision is based on it.
 *
 * ```
 * etcd ──one watch──▶ NodeFeed ──▶ FeedSubscription (collects changed IDs, reads the nodes when its caller is ready)
 * ```
 */
export class NodeFeed {
  readonly #options: NodeFeedOptions;
  readonly #nodes = new Map<string, NodeEntries>();
  /** The revision of the last change of each node, also of a deleted node as long as its deletion is remembered. */
  readonly #changedAt = new Map<string, bigint>();
  /** When the heartbeat of each silent node expired. Of a node that was silent before the feed: when the feed saw it first. */
  readonly #silentSinceMs = new Map<string, number>();
  readonly #subscriptions = new Set<FeedSubscription>();
  /** Subscriptions to a single node, by its ID. */
  readonly #byNode = new Map<string, Set<FeedSubscription>>();
  #revision = 0n;
  /** The feed knows which nodes have changed after this revision, but not which ones changed before it. */
  #knownSince = 0n;
  #moved = Promise.withResolvers<void>();
  #isListed = false;
  #isInterrupted = false;

  constructor(options: NodeFeedOptions) {
    this.#options = options;
  }

  /** The newest etcd revision that the cache has seen. */
  get revision(): bigint {
    return this.#revision;
  }

  /** Watches until the signal fires. */
  async run(signal: AbortSignal): Promise<void> {
    try {
      for await (const event of this.#options.etcd.watch(NODES_PREFIX, { signal, withProgress: true })) {
        if (event.kind === 'relist') this.#relist(event.entries, event.revision);
        else if (event.kind === 'changes') this.#apply(event.changes, event.revision);
        else if (event.kind === 'progress') this.#revision = event.revision;
        if (event.kind === 'interrupted') this.#interrupt(event.error);
        else this.#isInterrupted = false;
      }
    } finally {
      for (const each of this.#allSubscriptions()) each.fail(signal.reason);
    }
  }

  /**
   * Subscribes to all nodes or to one: first everything, or only the changes after a revision that is still known. Waits until
   * the cache is filled and has reached that revision, so that a caller from a faster curator does not see the past again.
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
        if (options.nodeId !== undefined && group.size === 0) this.#byNode.delete(options.nodeId);
      },
    });
    group.add(subscription);
    return subscription;
  }

  /** All cached nodes, not for decisions. */
  all(): readonly NodeView[] {
    return [...this.#nodes.keys()].flatMap((nodeId) => this.view(nodeId) ?? []);
  }

  /** Since when a node has sent no heartbeat, or longer; undefined if the feed knows a heartbeat of it. */
  silentSinceMs(nodeId: string): number | undefined {
    return this.#silentSinceMs.get(nodeId);
  }

  /** undefined while there is no record of the node; throws `records-invalid`. */
  view(nodeId: string): NodeView | undefined {
    return nodeViewFrom(this.#nodes.get(nodeId) ?? {});
  }

  /**
   * The nodes that changed after a revision. For a watch of one node this looks at that node only: after an
   * outage thousands of nodes open such watches at once.
   */
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
      await withTimeout(
        { what: 'waiting for the node cache', ms: LAG_MS, clock: this.#options.clock, signal },
        async (child) => {
          while (!isThere() && !child.aborted) await this.#moved.promise;
        },
      );
    } catch (error) {
      // If this curator does not reach the revision in time, the watch lists everything again, unless the
      // cache is empty.
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
    for (const nodeId of this.#silentSinceMs.keys())
      if (!this.#nodes.has(nodeId)) this.#silentSinceMs.delete(nodeId);
    for (const [nodeId, { heartbeat }] of this.#nodes) if (heartbeat === undefined) this.#noteSilence(nodeId);
    this.#revision = revision;
    this.#knownSince = revision;
    this.#options.log.info('nodes listed', { nodes: this.#nodes.size, revision });
    this.#isListed = true;
    this.#wake();
    this.#options.onChanged(this.#nodes.keys());
    for (const each of this.#allSubscriptions()) each.relist(this.#nodes.keys());
  }

  #apply(changes: readonly Change[], revision: bigint): void {
    const changed = new Set<string>();
    for (const change of changes) {
      const nodeId =
        change.kind === 'put' ? this.#put(change.entry) : this.#remove(change.key, change.modRevision);
      if (nodeId !== undefined) changed.add(nodeId);
    }
    this.#revision = revision;
    this.#wake();
    this.#dropOldDeletions();
    this.#options.onChanged(changed);
    for (const each of this.#subscriptions) each.addChanged(changed);
    for (const nodeId of changed)
      for (const each of this.#byNode.get(nodeId) ?? []) each.addChanged([nodeId]);
  }

  /** Ends all watches while etcd is unavailable, so that their callers continue at another curator. */
  #interrupt(error: unknown): void {
    const watches = this.#allSubscriptions();
    if (!this.#isInterrupted)
      this.#options.log.warn('etcd unavailable, closing all watches', { error, watches: watches.length });
    this.#isInterrupted = true;
    for (const each of watches) each.fail(error);
  }

  #allSubscriptions(): readonly FeedSubscription[] {
    return [...this.#subscriptions, ...[...this.#byNode.values()].flatMap((group) => [...group])];
  }

  #groupOf(nodeId: string | undefined): Set<FeedSubscription> {
    if (nodeId === undefined) return this.#subscriptions;
    const group = this.#byNode.get(nodeId) ?? new Set();
    this.#byNode.set(nodeId, group);
    return group;
  }

  #put(entry: Entry): string | undefined {
    const parsed = parseNodeKey(entry.key);
    if (parsed === undefined) return undefined;
    const parts = this.#nodes.get(parsed.nodeId) ?? {};
    parts[parsed.part] = entry;
    if (parsed.part === 'heartbeat') this.#silentSinceMs.delete(parsed.nodeId);
    this.#nodes.set(parsed.nodeId, parts);
    this.#recordChange(parsed.nodeId, entry.modRevision);
    return parsed.nodeId;
  }

  #remove(key: string, modRevision: bigint): string | undefined {
    const parsed = parseNodeKey(key);
    const parts = parsed === undefined ? undefined : this.#nodes.get(parsed.nodeId);
    if (parsed === undefined || parts === undefined) return undefined;
    delete parts[parsed.part];
    if (parsed.part === 'heartbeat') this.#noteSilence(parsed.nodeId);
    if (Object.keys(parts).length === 0) {
      this.#nodes.delete(parsed.nodeId);
      this.#silentSinceMs.delete(parsed.nodeId);
    }
    this.#recordChange(parsed.nodeId, modRevision);
    return parsed.nodeId;
  }

  #noteSilence(nodeId: string): void {
    if (!this.#silentSinceMs.has(nodeId)) this.#silentSinceMs.set(nodeId, this.#options.clock.nowMs());
  }

  /** Re-inserting keeps the map in the order of changes. */
  #recordChange(nodeId: string, revision: bigint): void {
    this.#changedAt.delete(nodeId);
    this.#changedAt.set(nodeId, revision);
  }

  #dropOldDeletions(): void {
    let excess = this.#changedAt.size - this.#nodes.size - MAX_DELETIONS;
    for (const [nodeId, at] of this.#changedAt) {
      if (excess <= 0) return;
      if (this.#nodes.has(nodeId)) continue;
      this.#changedAt.delete(nodeId);
      if (at > this.#knownSince) this.#knownSince = at;
      excess--;
    }
  }
}

/** A node from its etcd entries; undefined without a record. Throws `record-invalid`. */
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
