import { join } from 'node:path';
import { verifyBackup } from '../../../internal/backup/index.ts';
import type { Clock } from '../../../internal/clock/index.ts';
import type { FilePort, StreamPort } from '../../../internal/file/index.ts';
import { BACKUP_NAME, type BackupRecord } from '../../../internal/records/index.ts';
import { BackupTaskError } from '../errors.ts';
import { FILE_RATE, paced } from '../paced.ts';

const FILE_MODE = 0o600;
const SEQ_DIGITS = 8;

/** The cluster, node and keys with which a file in the ring is verified. */
export interface RingTrust {
  readonly clusterId: string;
  readonly nodeId: string;
  /** Raw Ed25519 keys of the owners. */
  readonly ownerKeys: readonly Uint8Array[];
}

/**
 * The backups on the disk of this control plane, and a directory for the one in progress:
 *
 * ```
 * DIRECTORY/kept/NAME     complete and encrypted
 * DIRECTORY/work          the next file, and unencrypted snapshots (etcd's own data on this disk is unencrypted too); emptied by every start
 * ```
 */
export class BackupRing {
  readonly #clock: Clock;
  readonly #files: FilePort;
  readonly #streams: StreamPort;
  /** Directory of the complete backups. */
  readonly kept: string;
  readonly work: string;

  constructor(
    ports: { readonly files: FilePort; readonly streams: StreamPort; readonly clock: Clock },
    directory: string,
  ) {
    this.#clock = ports.clock;
    this.#files = ports.files;
    this.#streams = ports.streams;
    this.kept = join(directory, 'kept');
    this.work = join(directory, 'work');
  }

  /** Deletes what an interrupted backup left. */
  async clean(): Promise<void> {
    await this.#files.remove(this.work);
    await this.#files.makeDirectory(this.work);
    await this.#files.makeDirectory(this.kept);
  }

  /** Free space for backups, in bytes. */
  freeBytes(): Promise<number> {
    return this.#streams.freeBytes(this.work);
  }

  /** Appends to a file of the backup in progress. */
  append(name: string, offset: number, data: Uint8Array): Promise<void> {
    return this.#streams.writeAt(join(this.work, name), offset, data);
  }

  /** Reads the finished file back from the disk, verifies it, and keeps it. @throws BackupError */
  async publish(name: string, seq: number, trust: RingTrust, signal: AbortSignal): Promise<BackupRecord> {
    const path = join(this.work, name);
    const found = await this.#verify(path, trust, signal);
    const kept = `${String(seq).padStart(SEQ_DIGITS, '0')}-${stampOf(found.takenMs)}.backup`;
    await this.#streams.publish(path, join(this.kept, kept), FILE_MODE);
    return { version: 1, seq, nodeId: trust.nodeId, name: kept, ...found };
  }

  /**
   * Creates the record of a file that has no record, e.g. after a crash or a recovery of etcd; undefined if the file is
   * no backup of the cluster.
   */
  async describe(name: string, trust: RingTrust, signal: AbortSignal): Promise<BackupRecord | undefined> {
    const seq = Number.parseInt(name.slice(0, SEQ_DIGITS), 10);
    try {
      const found = await this.#verify(join(this.kept, name), trust, signal);
      return { version: 1, seq, nodeId: trust.nodeId, name, ...found };
    } catch {
      signal.throwIfAborted();
      return undefined;
    }
  }

  /** Names of the kept files, oldest first. */
  async list(): Promise<readonly string[]> {
    return (await this.#files.list(this.kept)).filter((name) => BACKUP_NAME.test(name));
  }

  async remove(name: string): Promise<void> {
    await this.#files.remove(join(this.kept, name));
  }

  /** The bytes of a kept file. @throws BackupTaskError `backup-node-file-unknown` */
  async *read(name: string, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    const path = join(this.kept, name);
    // The name comes from a curator, so it is untrusted.
    if (!BACKUP_NAME.test(name) || (await this.#files.stat(path))?.kind !== 'file')
      throw new BackupTaskError(
        'backup-node-file-unknown',
        `reading backup ${JSON.stringify(name.slice(0, 80))}: not found on this node`,
      );
    yield* this.#streams.readChunks(path, { signal });
  }

  async #verify(
    path: string,
    { clusterId, ownerKeys }: RingTrust,
    signal: AbortSignal,
  ): Promise<Pick<BackupRecord, 'takenMs' | 'epoch' | 'sha256' | 'sizeBytes'>> {
    const chunks = paced(this.#streams.readChunks(path, { signal }), ({ length }) => length, {
      bytesPerSecond: FILE_RATE,
      clock: this.#clock,
      signal,
    });
    const { header, sha256, sizeBytes } = await verifyBackup(chunks, {
      ...{ clusterId, owners: ownerKeys },
      epoch: 1,
    });
    return { takenMs: header.takenMs, epoch: header.epoch, sha256, sizeBytes };
  }
}

/** "20261124T031500000Z". */
function stampOf(ms: number): string {
  return new Date(ms).toISOString().replace(/[-:.]/g, '');
}
