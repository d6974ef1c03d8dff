import {
  EtcdError,
  type CallOptions,
  type Change,
  type Condition,
  type Entry,
  type KeyRange,
  type KeySpace,
  type Listing,
  type Transaction,
  type TransactionResult,
  type WatchEvent,
  type WatchOptions,
} from '../../etcd/index.ts';

/** etcd's semantics in memory: revisions, transactions, leases, watches that resume, compaction and outages on command. */
export class MemoryEtcd implements KeySpace {
  readonly #entries = new Map<string, Entry>();
  readonly #history: { readonly revision: bigint; readonly changes: readonly Change[] }[] = [];
  readonly #leases = new Map<bigint, number>();
  #revision = 1n;
  #compacted = 0n;
  #nextLease = 1n;
  #moved = Promise.withResolvers<void>();
  /** While set, every call fails with this error and watches are interrupted. */
  outage: EtcdError | undefined;
  /** Called before each commit, so that a test can change something in between. */
  onCommit: (transaction: Transaction) => void = () => undefined;

  get revision(): bigint {
    return this.#revision;
  }

  async get(key: string, options: CallOptions): Promise<Entry | undefined> {
    this.#check(options.signal);
    return this.#entries.get(key);
  }

  async list(prefix: string, options: CallOptions): Promise<Listing> {
    this.#check(options.signal);
    return { revision: this.#revision, entries: this.#with(prefix) };
  }

  async readTogether(
    ranges: readonly KeyRange[],
    options: CallOptions,
  ): Promise<readonly (readonly Entry[])[]> {
    this.#check(options.signal);
    return ranges.map((range) =>
      'prefix' in range
        ? this.#with(range.prefix)
        : [this.#entries.get(range.key)].filter((each) => each !== undefined),
    );
  }

  async commit(transaction: Transaction, options: CallOptions): Promise<TransactionResult> {
    this.#check(options.signal);
    this.onCommit(transaction);
    return this.commitNow(transaction);
  }

  commitNow(transaction: Transaction): TransactionResult {
    if (!transaction.when.every((condition) => this.#holds(condition))) {
      const found = (transaction.otherwiseGet ?? []).flatMap((key) => this.#entries.get(key) ?? []);
      return { kind: 'conflict', revision: this.#revision, found };
    }
    const revision = this.#revision + 1n;
    const changes = transaction.then.flatMap((write): readonly Change[] => {
      const before = this.#entries.get(write.key);
      if (write.kind === 'delete')
        return before === undefined ? [] : [{ kind: 'delete', key: write.key, modRevision: revision }];
      if (write.leaseId !== undefined && !this.#leases.has(write.leaseId))
        throw new EtcdError('etcd-lease-gone', 'writing');
      const createRevision = before?.createRevision ?? revision;
      const { key, value, leaseId = 0n } = write;
      return [{ kind: 'put', entry: { key, value, createRevision, modRevision: revision, leaseId } }];
    });
    if (changes.length > 0) this.#apply(revision, changes);
    return { kind: 'committed', revision: this.#revision };
  }

  async *watch(prefix: string, options: WatchOptions): AsyncGenerator<WatchEvent> {
    let after = options.afterRevision;
    let interrupted = false;
    for (;;) {
      options.signal.throwIfAborted();
      const moved = this.#moved.promise;
      if (this.outage !== undefined) {
        if (!interrupted) yield { kind: 'interrupted', error: this.outage };
        interrupted = true;
      } else {
        interrupted = false;
        if (after === undefined || after < this.#compacted) {
          after = this.#revision;
          yield { kind: 'relist', revision: after, entries: this.#with(prefix) };
        }
        for (const { revision, changes } of this.#history.filter((each) => each.revision > (after ?? 0n))) {
          after = revision;
          const own = changes.filter((change) => keyOf(change).startsWith(prefix));
          if (own.length > 0) yield { kind: 'changes', revision, changes: own };
        }
      }
      if (moved === this.#moved.promise) await untilEither(moved, options.signal);
    }
  }

  async grantLease(ttlSeconds: number, options: CallOptions): Promise<bigint> {
    this.#check(options.signal);
    this.#leases.set(this.#nextLease, ttlSeconds);
    return this.#nextLease++;
  }

  async keepLeaseAlive(leaseId: bigint, options: CallOptions): Promise<number | undefined> {
    this.#check(options.signal);
    return this.#leases.get(leaseId);
  }

  async revokeLease(leaseId: bigint, options: CallOptions): Promise<void> {
    this.#check(options.signal);
    this.expireLease(leaseId);
  }

  /** Expires a lease that is not kept alive: deletes its keys. */
  expireLease(leaseId: bigint): void {
    this.#leases.delete(leaseId);
    const bound = [...this.#entries.values()].filter((entry) => entry.leaseId === leaseId);
    this.commitNow({ when: [], then: bound.map(({ key }) => ({ kind: 'delete', key })) });
  }

  /** Deletes the history: watches of older revisions list all keys again. */
  compact(): void {
    this.#compacted = this.#revision;
    this.#history.length = 0;
    this.#wake();
  }

  setOutage(outage: EtcdError | undefined): void {
    this.outage = outage;
    this.#wake();
  }

  #apply(revision: bigint, changes: readonly Change[]): void {
    this.#revision = revision;
    for (const change of changes) {
      if (change.kind === 'put') this.#entries.set(change.entry.key, change.entry);
      else this.#entries.delete(change.key);
    }
    this.#history.push({ revision, changes });
    this.#wake();
  }

  #wake(): void {
    this.#moved.resolve();
    this.#moved = Promise.withResolvers();
  }

  #check(signal: AbortSignal): void {
    signal.throwIfAborted();
    if (this.outage !== undefined) throw this.outage;
  }

  #with(prefix: string): Entry[] {
    return [...this.#entries.values()]
      .filter(({ key }) => key.startsWith(prefix))
      .sort((a, b) => (a.key < b.key ? -1 : 1));
  }

  #holds(condition: Condition): boolean {
    const entry = this.#entries.get(condition.key);
    if (condition.kind === 'absent') return entry === undefined;
    if (condition.kind === 'present') return entry !== undefined;
    return (entry?.modRevision ?? 0n) === condition.modRevision;
  }
}

function keyOf(change: Change): string {
  return change.kind === 'put' ? change.entry.key : change.key;
}

async function untilEither(moved: Promise<void>, signal: AbortSignal): Promise<void> {
  const aborted = Promise.withResolvers<never>();
  const onAbort = (): void => aborted.reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    await Promise.race([moved, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
