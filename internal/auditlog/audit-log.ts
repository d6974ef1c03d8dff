import { EMPTY_CHAIN, extendChain, type AuditFacts } from '../audit/index.ts';
import {
  absent,
  EtcdError,
  put,
  remove,
  unchanged,
  type Condition,
  type Entry,
  type KeySpace,
  type Write,
} from '../etcd/index.ts';
import {
  auditHeadKey,
  auditKey,
  records,
  type AuditHeadRecord,
  type AuditLogName,
} from '../records/index.ts';

/**
 * The maximum number of entries of each log in etcd. Both logs together take about 50 MiB of the 2 GiB that etcd may
 * use. Older entries are deleted; operators can export them before. Machines that nobody has admitted can fill only the
 * log of requests.
 */
const AUDIT_LOG_MAX_ENTRIES: Readonly<Record<AuditLogName, number>> = {
  decisions: 65_536,
  requests: 16_384,
};
/** etcd accepts 128 operations per transaction (--max-txn-ops). */
const MAX_OPERATIONS = 96;
const MAX_BATCH = 24;

/** A change and its audit entry. */
export interface AuditedChange {
  readonly when: readonly Condition[];
  readonly then: readonly Write[];
  readonly facts: AuditFacts;
}

/** `overtaken`: a condition did not hold, so the caller must read again. */
type AuditedResult =
  { readonly kind: 'committed'; readonly revision: bigint } | { readonly kind: 'overtaken' };

interface Waiting {
  readonly change: AuditedChange;
  readonly signal: AbortSignal;
  readonly resolve: (result: AuditedResult) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Appends to the audit log, each entry in the transaction of its change, so that the log has exactly the
 * changes that happened. All writers share one head key. Therefore a process commits all waiting changes in
 * one transaction, and retries when another node has committed first.
 */
export class AuditLog {
  readonly #etcd: KeySpace;
  readonly #log: AuditLogName;
  readonly #headKey: string;
  readonly #maxEntries: number;
  readonly #waiting: Waiting[] = [];
  #head: Entry | undefined;
  #isHeadKnown = false;
  #isWriting = false;

  /** @param options `log`: the log to append to; default: decisions */
  constructor(options: {
    readonly etcd: KeySpace;
    readonly log?: AuditLogName;
    readonly maxEntries?: number;
  }) {
    this.#etcd = options.etcd;
    this.#log = options.log ?? 'decisions';
    this.#headKey = auditHeadKey(this.#log);
    this.#maxEntries = options.maxEntries ?? AUDIT_LOG_MAX_ENTRIES[this.#log];
  }

  /** Commits a change with its entry. The signal can cancel it only until its transaction begins. */
  commit(change: AuditedChange, signal: AbortSignal): Promise<AuditedResult> {
    const { promise, resolve, reject } = Promise.withResolvers<AuditedResult>();
    this.#waiting.push({ change, signal, resolve, reject });
    void this.#write();
    return promise;
  }

  async #write(): Promise<void> {
    if (this.#isWriting) return;
    this.#isWriting = true;
    while (this.#waiting.length > 0) {
      const batch = this.#takeBatch();
      await this.#settle(batch);
    }
    this.#isWriting = false;
  }

  /**
   * Takes changes that fit into one transaction. No change of a batch writes or depends on a key that another change of
   * the batch writes.
   */
  #takeBatch(): Waiting[] {
    const batch: Waiting[] = [];
    const touched = new Set<string>();
    const written = new Set<string>();
    let operations = 0;
    while (batch.length < MAX_BATCH) {
      const next = this.#waiting[0];
      if (next === undefined) break;
      if (next.signal.aborted) {
        next.reject(next.signal.reason);
        this.#waiting.shift();
        continue;
      }
      const { when, then } = next.change;
      const isApart =
        then.every(({ key }) => !touched.has(key)) && when.every(({ key }) => !written.has(key));
      const more = Math.max(when.length, then.length + 2);
      if (batch.length > 0 && (!isApart || operations + more > MAX_OPERATIONS)) break;
      operations += more;
      for (const { key } of [...when, ...then]) touched.add(key);
      for (const { key } of then) written.add(key);
      batch.push(next);
      this.#waiting.shift();
    }
    return batch;
  }

  async #settle(batch: readonly Waiting[]): Promise<void> {
    if (batch.length === 0) return;
    try {
      const result = await this.#commitAll(batch.map(({ change }) => change));
      if (result.kind === 'overtaken' && batch.length > 1) return await this.#settleEach(batch);
      for (const { resolve } of batch) resolve(result);
    } catch (error) {
      this.#isHeadKnown = false; // the outcome of the transaction is unknown
      const isRefused = error instanceof EtcdError && error.code !== 'etcd-unavailable';
      if (isRefused && batch.length > 1) return await this.#settleEach(batch);
      for (const { reject } of batch) reject(error);
    }
  }

  /** Commits each change of a failed batch alone, to find out which one failed. */
  async #settleEach(batch: readonly Waiting[]): Promise<void> {
    for (const each of batch) await this.#settle([each]);
  }

  /** Commits all or none. Only the time limit of the etcd client applies: the signal of one change must not cancel others. */
  async #commitAll(changes: readonly AuditedChange[]): Promise<AuditedResult> {
    const { signal } = new AbortController();
    for (;;) {
      const head = await this.#readHead(signal);
      const plan = planEntries(head, changes, { log: this.#log, maxEntries: this.#maxEntries });
      const result = await this.#etcd.commit(
        {
          when: [
            this.#head === undefined ? absent(this.#headKey) : unchanged(this.#head),
            ...changes.flatMap(({ when }) => when),
          ],
          then: [...changes.flatMap(({ then }) => then), ...plan.writes],
          otherwiseGet: [this.#headKey],
        },
        { signal },
      );
      if (result.kind === 'committed') {
        const { revision } = result;
        this.#head = {
          key: this.#headKey,
          value: plan.headValue,
          createRevision: this.#head?.createRevision ?? revision,
          modRevision: revision,
          leaseId: 0n,
        };
        return result;
      }
      const [found] = result.found;
      const isOurHead = found?.modRevision === this.#head?.modRevision;
      this.#head = found;
      if (isOurHead) return { kind: 'overtaken' };
    }
  }

  async #readHead(signal: AbortSignal): Promise<AuditHeadRecord> {
    if (!this.#isHeadKnown) {
      this.#head = await this.#etcd.get(this.#headKey, { signal });
      this.#isHeadKnown = true;
    }
    return headFrom(this.#head);
  }
}

/** The stored head, or the head of an empty chain. */
export function headFrom(entry: Entry | undefined): AuditHeadRecord {
  if (entry === undefined) return { version: 1, ...EMPTY_CHAIN, firstSeq: 1 };
  return records.auditHead.decode(entry.key, entry.value);
}

function planEntries(
  head: AuditHeadRecord,
  changes: readonly AuditedChange[],
  { log, maxEntries }: { readonly log: AuditLogName; readonly maxEntries: number },
): { readonly writes: readonly Write[]; readonly headValue: Uint8Array } {
  const writes: Write[] = [];
  let { seq, hash, firstSeq } = head;
  for (const { facts } of changes) {
    const next = extendChain({ seq, hash }, facts, log);
    ({ seq, hash } = next.head);
    writes.push(put(auditKey(seq, log), next.record));
    if (seq - firstSeq >= maxEntries) writes.push(remove(auditKey(firstSeq++, log)));
  }
  const headValue = records.auditHead.encode({ version: 1, seq, hash, firstSeq });
  return { writes: [...writes, put(auditHeadKey(log), headValue)], headValue };
}
