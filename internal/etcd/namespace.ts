import type {
  CallOptions,
  Change,
  Condition,
  Entry,
  KeyRange,
  KeySpace,
  Listing,
  Transaction,
  TransactionResult,
  WatchEvent,
  WatchOptions,
  Write,
} from './key-space.ts';

/** The keys below a prefix. Callers do not see the prefix. Leases are not namespaced. */
export class Namespace implements KeySpace {
  readonly #inner: KeySpace;
  readonly #prefix: string;

  constructor(inner: KeySpace, prefix: string) {
    this.#inner = inner;
    this.#prefix = prefix;
  }

  async get(key: string, options: CallOptions): Promise<Entry | undefined> {
    const entry = await this.#inner.get(this.#prefix + key, options);
    return entry === undefined ? undefined : this.#strip(entry);
  }

  async list(prefix: string, options: CallOptions): Promise<Listing> {
    const { revision, entries } = await this.#inner.list(this.#prefix + prefix, options);
    return { revision, entries: entries.map((entry) => this.#strip(entry)) };
  }

  async readTogether(
    ranges: readonly KeyRange[],
    options: CallOptions,
  ): Promise<readonly (readonly Entry[])[]> {
    const inner = ranges.map((range) =>
      'key' in range ? { key: this.#prefix + range.key } : { prefix: this.#prefix + range.prefix },
    );
    const found = await this.#inner.readTogether(inner, options);
    return found.map((entries) => entries.map((entry) => this.#strip(entry)));
  }

  async commit(transaction: Transaction, options: CallOptions): Promise<TransactionResult> {
    const add = <T extends Condition | Write>(each: T): T => ({ ...each, key: this.#prefix + each.key });
    const result = await this.#inner.commit(
      {
        when: transaction.when.map(add),
        then: transaction.then.map(add),
        otherwiseGet: (transaction.otherwiseGet ?? []).map((key) => this.#prefix + key),
      },
      options,
    );
    if (result.kind === 'committed') return result;
    return { ...result, found: result.found.map((entry) => this.#strip(entry)) };
  }

  async *watch(prefix: string, options: WatchOptions): AsyncGenerator<WatchEvent> {
    for await (const event of this.#inner.watch(this.#prefix + prefix, options)) {
      if (event.kind === 'relist')
        yield { ...event, entries: event.entries.map((each) => this.#strip(each)) };
      else if (event.kind === 'changes')
        yield { ...event, changes: event.changes.map((each) => this.#stripChange(each)) };
      else yield event;
    }
  }

  grantLease(ttlSeconds: number, options: CallOptions): Promise<bigint> {
    return this.#inner.grantLease(ttlSeconds, options);
  }

  keepLeaseAlive(leaseId: bigint, options: CallOptions): Promise<number | undefined> {
    return this.#inner.keepLeaseAlive(leaseId, options);
  }

  revokeLease(leaseId: bigint, options: CallOptions): Promise<void> {
    return this.#inner.revokeLease(leaseId, options);
  }

  #strip<T extends { readonly key: string }>(each: T): T {
    return { ...each, key: each.key.slice(this.#prefix.length) };
  }

  #stripChange(change: Change): Change {
    return change.kind === 'put' ? { kind: 'put', entry: this.#strip(change.entry) } : this.#strip(change);
  }
}
