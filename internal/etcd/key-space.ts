/** One key as it was read. */
export interface Entry {
  readonly key: string;
  readonly value: Uint8Array;
  readonly createRevision: bigint;
  readonly modRevision: bigint;
  /** 0n: bound to no lease. */
  readonly leaseId: bigint;
}

export interface Listing {
  /** The revision of the whole store at which all entries were read. */
  readonly revision: bigint;
  readonly entries: readonly Entry[];
}

export type Condition =
  | { readonly kind: 'absent'; readonly key: string }
  | { readonly kind: 'present'; readonly key: string }
  | { readonly kind: 'unchanged'; readonly key: string; readonly modRevision: bigint };

export type Write =
  | { readonly kind: 'put'; readonly key: string; readonly value: Uint8Array; readonly leaseId?: bigint }
  | { readonly kind: 'delete'; readonly key: string };

export interface Transaction {
  /** All of them must hold, at one revision. */
  readonly when: readonly Condition[];
  readonly then: readonly Write[];
  /** Read in the same instant if one did not hold. */
  readonly otherwiseGet?: readonly string[];
}

export type TransactionResult =
  | { readonly kind: 'committed'; readonly revision: bigint }
  | { readonly kind: 'conflict'; readonly revision: bigint; readonly found: readonly Entry[] };

export type Change =
  | { readonly kind: 'put'; readonly entry: Entry }
  | { readonly kind: 'delete'; readonly key: string; readonly modRevision: bigint };

export type WatchEvent =
  /** Everything there is: forget what was known before. Comes first without a revision, and after a compaction. */
  | { readonly kind: 'relist'; readonly revision: bigint; readonly entries: readonly Entry[] }
  /** What happened up to and with `revision`, in order. A transaction is never split. */
  | { readonly kind: 'changes'; readonly revision: bigint; readonly changes: readonly Change[] }
  /** Nothing happened up to and with `revision`. */
  | { readonly kind: 'progress'; readonly revision: bigint }
  /** No member could be watched; the watch goes on by itself where it was. Quorum loss is not hidden. */
  | { readonly kind: 'interrupted'; readonly error: unknown };

export interface CallOptions {
  readonly signal: AbortSignal;
  readonly timeoutMs?: number;
}

export interface WatchOptions {
  readonly signal: AbortSignal;
  /** What has been seen already; without it everything is listed first. */
  readonly afterRevision?: bigint;
  /**
   * To be told now and then how far the watch is, also while nothing changes: after a break it then goes on where it was.
   * Without it a watch that nothing has happened to for long may have to list everything anew, and costs nothing.
   */
  readonly withProgress?: true;
}

/**
 * Keys and values as users of etcd see them: all reads are linearizable, all writes are transactions.
 * Rejects with `EtcdError`. Keys are text; a namespace hides its prefix.
 */
export interface KeySpace {
  get(key: string, options: CallOptions): Promise<Entry | undefined>;
  list(prefix: string, options: CallOptions): Promise<Listing>;
  commit(transaction: Transaction, options: CallOptions): Promise<TransactionResult>;
  /** Never ends by itself; throws the signal's reason, or what cannot pass by itself (a refusal). */
  watch(prefix: string, options: WatchOptions): AsyncIterable<WatchEvent>;
  grantLease(ttlSeconds: number, options: CallOptions): Promise<bigint>;
  /** Answers the seconds the lease now has, or undefined when it is gone. */
  keepLeaseAlive(leaseId: bigint, options: CallOptions): Promise<number | undefined>;
  revokeLease(leaseId: bigint, options: CallOptions): Promise<void>;
}

export const absent = (key: string): Condition => ({ kind: 'absent', key });
export const present = (key: string): Condition => ({ kind: 'present', key });
export const unchanged = (entry: Pick<Entry, 'key' | 'modRevision'>): Condition => ({
  kind: 'unchanged',
  key: entry.key,
  modRevision: entry.modRevision,
});
export const put = (key: string, value: Uint8Array, leaseId?: bigint): Write => ({
  kind: 'put',
  key,
  value,
  ...(leaseId === undefined ? {} : { leaseId }),
});
export const remove = (key: string): Write => ({ kind: 'delete', key });
