/** A key with its value and revisions. */
export interface Entry {
  readonly key: string;
  readonly value: Uint8Array;
  readonly createRevision: bigint;
  readonly modRevision: bigint;
  /** 0n means no lease. */
  readonly leaseId: bigint;
}

/** All entries below a prefix at one revision. */
export interface Listing {
  /** The revision of the whole store at which all entries were read. */
  readonly revision: bigint;
  readonly entries: readonly Entry[];
}

/** One key, or all keys with a prefix. */
export type KeyRange = { readonly key: string } | { readonly prefix: string };

/** A condition of a transaction. */
export type Condition =
  | { readonly kind: 'absent'; readonly key: string }
  | { readonly kind: 'present'; readonly key: string }
  | { readonly kind: 'unchanged'; readonly key: string; readonly modRevision: bigint };

/** A write of a transaction. */
export type Write =
  | { readonly kind: 'put'; readonly key: string; readonly value: Uint8Array; readonly leaseId?: bigint }
  | { readonly kind: 'delete'; readonly key: string };

/** Writes that happen together if all conditions hold. */
export interface Transaction {
  /** All conditions must hold at the same revision. */
  readonly when: readonly Condition[];
  readonly then: readonly Write[];
  /** Keys to read at the same revision when a condition does not hold. */
  readonly otherwiseGet?: readonly string[];
}

/** `conflict`: a condition did not hold, and nothing was written. */
export type TransactionResult =
  | { readonly kind: 'committed'; readonly revision: bigint }
  | { readonly kind: 'conflict'; readonly revision: bigint; readonly found: readonly Entry[] };

/** A change of a key that a watch reports. */
export type Change =
  | { readonly kind: 'put'; readonly entry: Entry }
  | { readonly kind: 'delete'; readonly key: string; readonly modRevision: bigint };

/** An event of a watch. */
export type WatchEvent =
  /**
   * All entries. They replace everything that the reader knew before. Sent first if `afterRevision` is not
   * set, and after a compaction.
   */
  | { readonly kind: 'relist'; readonly revision: bigint; readonly entries: readonly Entry[] }
  /** The changes up to and including `revision`, in order. A transaction is never split. */
  | { readonly kind: 'changes'; readonly revision: bigint; readonly changes: readonly Change[] }
  /** Nothing changed up to and including `revision`. */
  | { readonly kind: 'progress'; readonly revision: bigint }
  /** No member could be watched, for example without quorum. The watch resumes automatically. */
  | { readonly kind: 'interrupted'; readonly error: unknown };

/** Options of one call. */
export interface CallOptions {
  readonly signal: AbortSignal;
  readonly timeoutMs?: number;
}

/** The position at which a watch begins. */
export interface WatchOptions {
  readonly signal: AbortSignal;
  /** The last revision that is already known; without it the watch begins with a `relist`. */
  readonly afterRevision?: bigint;
  /**
   * Yields `progress` events also while nothing changes, so that the watch can resume after an interruption. Without it,
   * a watch that was idle for long may have to list all keys again.
   */
  readonly withProgress?: true;
}

/**
 * Keys and values of etcd: all reads are linearizable, all writes are transactions. Keys are text; a `Namespace` hides
 * its prefix. All methods throw `EtcdError`.
 */
export interface KeySpace {
  get(key: string, options: CallOptions): Promise<Entry | undefined>;
  list(prefix: string, options: CallOptions): Promise<Listing>;
  /**
   * Reads a few keys and small prefixes in one call, all at the same revision.
   * @returns the entries of each range, in the order of the ranges. An answer of more than 4 MiB fails.
   */
  readTogether(ranges: readonly KeyRange[], options: CallOptions): Promise<readonly (readonly Entry[])[]>;
  commit(transaction: Transaction, options: CallOptions): Promise<TransactionResult>;
  /**
   * The watch does not end by itself. It throws the reason of the abort signal, or the error with which
   * etcd refused the watch.
   */
  watch(prefix: string, options: WatchOptions): AsyncIterable<WatchEvent>;
  grantLease(ttlSeconds: number, options: CallOptions): Promise<bigint>;
  /** @returns the remaining seconds of the lease; undefined when it has expired */
  keepLeaseAlive(leaseId: bigint, options: CallOptions): Promise<number | undefined>;
  revokeLease(leaseId: bigint, options: CallOptions): Promise<void>;
}

/** Holds if the key does not exist. */
export const absent = (key: string): Condition => ({ kind: 'absent', key });
/** Holds if the key exists. */
export const present = (key: string): Condition => ({ kind: 'present', key });
/** Holds if the key was not written since the entry was read. */
export const unchanged = (entry: Pick<Entry, 'key' | 'modRevision'>): Condition => ({
  kind: 'unchanged',
  key: entry.key,
  modRevision: entry.modRevision,
});
/** Writes a key, optionally bound to a lease. */
export const put = (key: string, value: Uint8Array, leaseId?: bigint): Write => ({
  kind: 'put',
  key,
  value,
  ...(leaseId === undefined ? {} : { leaseId }),
});
/** Deletes a key. */
export const remove = (key: string): Write => ({ kind: 'delete', key });

/**
 * Calls `apply` with the entry of one key: at the start, and after each write. The entry is undefined if the key does
 * not exist.
 */
export async function watchKey(
  etcd: Pick<KeySpace, 'watch'>,
  key: string,
  options: { readonly signal: AbortSignal; readonly apply: (entry: Entry | undefined) => void },
): Promise<never> {
  for await (const event of etcd.watch(key, { signal: options.signal })) {
    if (event.kind === 'relist') options.apply(event.entries.find((entry) => entry.key === key));
    else if (event.kind === 'changes')
      for (const change of event.changes)
        if (change.kind === 'put' && change.entry.key === key) options.apply(change.entry);
  }
  throw new Error(`the watch of ${key} ended`);
}
