import type { Change, Entry, KeySpace } from '../../../internal/etcd/index.ts';
import type { Logger } from '../../../internal/logging/index.ts';
import { JOINS_PREFIX, records, type JoinRecord } from '../../../internal/records/index.ts';

/** A request as etcd has it. */
export interface JoinEntry {
  readonly record: JoinRecord;
  readonly modRevision: bigint;
}

/**
 * All requests to join, as they come: one watch serves every machine that waits. A cache: who waits is told to look
 * again, and decisions are made from what is read then.
 */
export class JoinFeed {
  readonly #etcd: KeySpace;
  readonly #log: Logger;
  readonly #joins = new Map<string, JoinEntry>();
  readonly #waiting = new Map<string, Set<() => void>>();

  constructor(options: { readonly etcd: KeySpace; readonly log: Logger }) {
    this.#etcd = options.etcd;
    this.#log = options.log;
  }

  /** Follows etcd until the signal fires. */
  async run(signal: AbortSignal): Promise<void> {
    for await (const event of this.#etcd.watch(JOINS_PREFIX, { signal })) {
      if (event.kind === 'relist') {
        this.#joins.clear();
        for (const entry of event.entries) this.#put(entry);
        this.wakeAll();
      } else if (event.kind === 'changes') for (const change of event.changes) this.#apply(change);
    }
  }

  get all(): readonly JoinEntry[] {
    return [...this.#joins.values()];
  }

  /** Requests that may still become something, and refused ones: what strangers can make grow. */
  get open(): readonly JoinEntry[] {
    return this.all.filter(({ record }) => record.state !== 'joined');
  }

  /** To whom a name has been promised by an approval that has not been committed. */
  promisedTo(name: string, nowMs: number): string | undefined {
    return this.all.find(
      ({ record }) =>
        record.state === 'approved' && record.decision?.name === name && record.decision.expiresMs > nowMs,
    )?.record.nodeId;
  }

  /** A promise that is kept at the next change of this request, or when the policy changes. To be taken before looking. */
  next(nodeId: string): { readonly changed: Promise<void> } & Disposable {
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiting = this.#waiting.get(nodeId) ?? new Set();
    this.#waiting.set(nodeId, waiting.add(resolve));
    return {
      changed: promise,
      [Symbol.dispose]: () => {
        waiting.delete(resolve);
        if (waiting.size === 0 && this.#waiting.get(nodeId) === waiting) this.#waiting.delete(nodeId);
      },
    };
  }

  /** How many machines wait at this node. */
  get waiting(): number {
    return this.#waiting.size;
  }

  wakeAll(): void {
    for (const nodeId of this.#waiting.keys()) this.#wake(nodeId);
  }

  #wake(nodeId: string): void {
    for (const resolve of this.#waiting.get(nodeId) ?? []) resolve();
  }

  #apply(change: Change): void {
    if (change.kind === 'put') this.#put(change.entry);
    else {
      const nodeId = change.key.slice(JOINS_PREFIX.length);
      this.#joins.delete(nodeId);
      this.#wake(nodeId);
    }
  }

  #put(entry: Entry): void {
    try {
      const record = records.join.decode(entry.key, entry.value);
      this.#joins.set(record.nodeId, { record, modRevision: entry.modRevision });
      this.#wake(record.nodeId);
    } catch (error) {
      this.#log.warn('a record of a join cannot be read', { key: entry.key, error });
    }
  }
}
