import { join } from 'node:path';
import { findCoded } from '../../../internal/errors/index.ts';
import type { ObjectStore } from '../../../internal/objectstore/index.ts';
import { BACKUP_NAME, type BackupRecord } from '../../../internal/records/index.ts';
import type { CopyTarget, WantedCopies } from './copy-target.ts';

/**
 * The copies of one node's backups in a bucket of an S3-compatible store:
 *
 * ```
 * PREFIX/CLUSTER-ID/NODE-ID/NAME      the same bytes as on this node's disk
 * ```
 *
 * The object gets its final name as soon as its upload ends, without a temporary name. So a copy counts only after it
 * was read back.
 */
export class StoreCopies implements CopyTarget {
  readonly #store: ObjectStore;
  readonly #prefix: string;

  /** @param prefix of the keys of this node, with a slash at its end */
  constructor(store: ObjectStore, prefix: string) {
    this.#store = store;
    this.#prefix = prefix;
  }

  /** @throws ObjectStoreError */
  async update(
    from: string,
    { backups, keep, verified }: WantedCopies,
    signal: AbortSignal,
  ): Promise<readonly string[]> {
    const present = await this.#list(signal);
    let hasUploaded = false;
    for (const backup of backups.toSorted((a, b) => a.seq - b.seq)) {
      const { name, sizeBytes } = backup;
      const hasSize = present.get(name) === sizeBytes;
      if (!hasSize || !(verified.includes(name) || (await this.#isSame(backup, signal)))) {
        await this.#upload(from, backup, signal);
        hasUploaded = true;
      }
      present.set(name, sizeBytes);
    }
    // Names begin with the number of the backup, so they sort by age. Old copies are deleted only after all newer
    // copies exist.
    const names = [...present.keys()].toSorted();
    const kept = names.slice(-Math.max(1, keep, backups.length));
    // Only then: a store that refuses to delete would otherwise be asked again and again.
    if (hasUploaded) await this.#removeUntilRefused(names, kept, signal);
    return kept;
  }

  /** Size in bytes by name. */
  async #list(signal: AbortSignal): Promise<Map<string, number>> {
    const objects = await this.#store.list(this.#prefix, signal);
    const named = objects.map(({ key, sizeBytes }) => [key.slice(this.#prefix.length), sizeBytes] as const);
    return new Map(
      named.filter(([name], at) => BACKUP_NAME.test(name) && objects[at]?.key === this.#prefix + name),
    );
  }

  /** Whether the stored object is complete. An earlier upload may have been interrupted before it was read back. */
  async #isSame({ name, sizeBytes, sha256 }: BackupRecord, signal: AbortSignal): Promise<boolean> {
    return this.#store.isSame(this.#prefix + name, { sizeBytes, sha256 }, signal);
  }

  async #upload(from: string, { name, sizeBytes, sha256 }: BackupRecord, signal: AbortSignal): Promise<void> {
    await this.#store.removeUnfinished(this.#prefix, signal);
    await this.#store.put(this.#prefix + name, { path: join(from, name), sizeBytes, sha256 }, signal);
  }

  /**
   * Deletes the names that are not kept. An access key may lack the permission to delete, which protects the copies from a
   * compromised node. Then the old copies stay.
   */
  async #removeUntilRefused(
    names: readonly string[],
    kept: readonly string[],
    signal: AbortSignal,
  ): Promise<void> {
    for (const name of names.filter((each) => !kept.includes(each))) {
      try {
        await this.#store.remove(this.#prefix + name, signal);
      } catch (error) {
        if (findCoded(error)?.code !== 'objectstore-refused') throw error;
        return;
      }
    }
  }
}
