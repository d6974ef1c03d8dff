import type { Condition, KeySpace, Write } from '../../internal/etcd/index.ts';
import {
  MAX_KNOWN_MACHINES,
  MERGED_REMOVALS_KEY,
  records,
  type StoredRecord,
} from '../../internal/records/index.ts';
import { nameOfCaller, type Caller } from '../curator/index.ts';
import { RemovedMachinesError } from './errors.ts';

/** The largest number of removals that all kept workers of a restore can add together. */
const MAX_MERGED = 4 * MAX_KNOWN_MACHINES;

/**
 * How much of its report the cluster has recorded for one kept worker, and for all of them.
 * @throws RemovedMachinesError `removedmachines-not-kept`
 */
export async function readProgress(
  etcd: KeySpace,
  peer: Caller,
  signal: AbortSignal,
): Promise<ReportProgress> {
  const key = peer.kind === 'node' ? records.keptWorker.key(peer.nodeId) : undefined;
  const [kept, total] = await Promise.all([
    key === undefined ? undefined : records.keptWorker.read(etcd, key, signal),
    records.mergedRemovals.read(etcd, MERGED_REMOVALS_KEY, signal),
  ]);
  if (key === undefined || kept?.record === undefined)
    throw new RemovedMachinesError('removedmachines-not-kept', `no restore has kept ${nameOfCaller(peer)}`);
  return new ReportProgress(key, { ...kept, record: kept.record }, total);
}

/** Counts what is recorded, and holds the conditions that nobody else has counted meanwhile. */
class ReportProgress {
  readonly isDone: boolean;
  readonly #key: string;
  #merged: number;
  #total: number;
  #keptUnchanged: Condition;
  #totalUnchanged: Condition;

  constructor(
    key: string,
    kept: StoredRecord<unknown> & { readonly record: { readonly merged: number; readonly isDone: boolean } },
    total: StoredRecord<{ readonly merged: number }>,
  ) {
    this.#key = key;
    this.isDone = kept.record.isDone;
    this.#merged = kept.record.merged;
    this.#total = total.record?.merged ?? 0;
    this.#keptUnchanged = kept.unchanged;
    this.#totalUnchanged = total.unchanged;
  }

  /** How many removals may still be added. */
  get room(): number {
    return Math.max(0, Math.min(MAX_KNOWN_MACHINES - this.#merged, MAX_MERGED - this.#total));
  }

  /**
   * The part of a transaction that counts this many more removals.
   * @param isDone whether the worker adds nothing any more after it
   */
  plan(
    more: number,
    isDone: boolean,
  ): { readonly when: readonly Condition[]; readonly then: readonly Write[] } {
    const merged = this.#merged + more;
    return {
      when: [this.#keptUnchanged, this.#totalUnchanged],
      then: [
        records.keptWorker.put(this.#key, { version: 1, merged, isDone }),
        records.mergedRemovals.put(MERGED_REMOVALS_KEY, { version: 1, merged: this.#total + more }),
      ],
    };
  }

  /** Notes that the transaction of `plan()` was committed. */
  advance(more: number, modRevision: bigint): void {
    this.#merged += more;
    this.#total += more;
    this.#keptUnchanged = { kind: 'unchanged', key: this.#key, modRevision };
    this.#totalUnchanged = { kind: 'unchanged', key: MERGED_REMOVALS_KEY, modRevision };
  }
}
