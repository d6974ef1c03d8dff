import type { Change, Entry, KeySpace } from '../../../internal/etcd/index.ts';
import type { Logger } from '../../../internal/logging/index.ts';
import { JOINS_PREFIX, records, type JoinRecord } from '../../../internal/records/index.ts';

/** A stored request to join. */
export interface JoinEntry {
  readonly record: JoinRecord;
  readonly modRevision: bigint;
}

/**
 * All requests to join, from one watch for all waiting machines. Only a cache: a change wakes the waiting
 * machines, and each decision then reads its records from etcd.
 */
export class JoinFeed {
  readonly #ports: { readonly etcd: KeySpace; readonly log: Logger };
  readonly #joins = new Map<string, JoinEntry>();
  readonly #waiting = new Map<string, Set<() => void>>();

  constructor(ports: { readonly etcd: KeySpace; readonly log: Logger }) {
    this.#ports = ports;
  }

  /** Watches until the signal fires. */
  async run(signal: AbortSignal): Promise<void> {
    for await (const event of this.#ports.etcd.watch(JOINS_PREFIX, { signal })) {
      if (event.kind === 'relist') {
        this.#joins.clear();
        for (const entry of event.entries) this.#put(entry);
        this.wakeAll();
      } else if (event.kind === 'changes') for (const change of event.changes) this.#apply(change);
    }
  }

  /** All requests, including the requests of members. */
  get all(): readonly JoinEntry[] {
    return [...this.#joins.values()];
  }

  /** Requests of machines that are not members, including refused requests. */
  get open(): readonly JoinEntry[] {
    return this.all.filter(({ record }) => record.state !== 'joined');
  }

  /** The ID of the node for which an approval reserves this name; undefined if the name is not reserved. */
  promisedTo(name: string, nowMs: number): string | undefined {
    return this.all.find(
      ({ record }) =>
        record.state === 'approved' && record.decision?.name === name && record.decision.expiresMs > nowMs,
    )?.record.nodeId;
  }

  /** Resolves `changed` at the next change of this request or of the policy. Call it before reading the request. */
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

  /** How many machines wait at this control plane. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** Wakes all waiting machines. */
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
      this.#ports.log.warn('join record invalid', { key: entry.key, error });
    }
  }
}
