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
import { AUDIT_HEAD_KEY, auditKey, records, type AuditHeadRecord } from '../records/index.ts';

/** Entries that are kept; about 40 MiB of etcd's 2 GiB. Who wants older ones exports them. */
const KEPT = 65_536;
/** etcd takes 128 operations in a transaction (--max-txn-ops). */
const MAX_OPERATIONS = 96;
const MAX_BATCH = 24;

/** A decision, and what it changes. */
export interface AuditedChange {
  readonly when: readonly Condition[];
  readonly then: readonly Write[];
  readonly facts: AuditFacts;
}

/** `overtaken`: a condition did not hold. Read again. */
export type AuditedResult =
  { readonly kind: 'committed'; readonly revision: bigint } | { readonly kind: 'overtaken' };

interface Waiting {
  readonly change: AuditedChange;
  readonly signal: AbortSignal;
  readonly resolve: (result: AuditedResult) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Appends to the cluster's chain of decisions, each in the transaction of what it changes: nothing happens that the chain
 * does not have, and the chain has nothing that did not happen. One head means one writer at a time, so a process
 * sends what has gathered meanwhile as one transaction; against the writers of other nodes it tries again.
 */
export class AuditLog {
  readonly #etcd: KeySpace;
  readonly #kept: number;
  readonly #waiting: Waiting[] = [];
  #head: Entry | undefined;
  #isHeadKnown = false;
  #isWriting = false;

  constructor(options: { readonly etcd: KeySpace; readonly kept?: number }) {
    this.#etcd = options.etcd;
    this.#kept = options.kept ?? KEPT;
  }

  /** Rejects with the signal's reason while it waits for its turn; once it is being written it runs to its end. */
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

  /** What can go together: changes that neither write nor depend on what another one of them writes. */
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
      this.#isHeadKnown = false; // nobody knows whether it happened
      const isRefused = error instanceof EtcdError && error.code !== 'etcd-unavailable';
      if (isRefused && batch.length > 1) return await this.#settleEach(batch);
      for (const { reject } of batch) reject(error);
    }
  }

  /** One of them cannot be. Which one shows when each goes alone. */
  async #settleEach(batch: readonly Waiting[]): Promise<void> {
    for (const each of batch) await this.#settle([each]);
  }

  /** All of them or none. The signal of one must not take back the others, so etcd's own time limit is the only one. */
  async #commitAll(changes: readonly AuditedChange[]): Promise<AuditedResult> {
    const { signal } = new AbortController();
    for (;;) {
      const head = await this.#readHead(signal);
      const plan = planEntries(head, changes, this.#kept);
      const result = await this.#etcd.commit(
        {
          when: [
            this.#head === undefined ? absent(AUDIT_HEAD_KEY) : unchanged(this.#head),
            ...changes.flatMap(({ when }) => when),
          ],
          then: [...changes.flatMap(({ then }) => then), ...plan.writes],
          otherwiseGet: [AUDIT_HEAD_KEY],
        },
        { signal },
      );
      if (result.kind === 'committed') {
        const { revision } = result;
        this.#head = {
          key: AUDIT_HEAD_KEY,
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
      this.#head = await this.#etcd.get(AUDIT_HEAD_KEY, { signal });
      this.#isHeadKnown = true;
    }
    return headFrom(this.#head);
  }
}

/** The head on record, or that of a chain that has no entry yet. */
export function headFrom(entry: Entry | undefined): AuditHeadRecord {
  if (entry === undefined) return { version: 1, ...EMPTY_CHAIN, firstSeq: 1 };
  return records.auditHead.decode(entry.key, entry.value);
}

function planEntries(
  head: AuditHeadRecord,
  changes: readonly AuditedChange[],
  kept: number,
): { readonly writes: readonly Write[]; readonly headValue: Uint8Array } {
  const writes: Write[] = [];
  let { seq, hash, firstSeq } = head;
  for (const { facts } of changes) {
    const next = extendChain({ seq, hash }, facts);
    ({ seq, hash } = next.head);
    writes.push(put(auditKey(seq), next.record));
    if (seq - firstSeq >= kept) writes.push(remove(auditKey(firstSeq++)));
  }
  const headValue = records.auditHead.encode({ version: 1, seq, hash, firstSeq });
  return { writes: [...writes, put(AUDIT_HEAD_KEY, headValue)], headValue };
}
