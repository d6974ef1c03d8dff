import { join } from 'node:path';
import { z } from 'zod';
import { BackupError, verifyBackup } from '../../../internal/backup/index.ts';
import type { Clock } from '../../../internal/clock/index.ts';
import { readJson, type FilePort, type StreamPort } from '../../../internal/file/index.ts';
import { BACKUP_NAME, proofPlaceShape, type BackupRecord } from '../../../internal/records/index.ts';
import { BackupTaskError } from '../errors.ts';
import { FILE_RATE, paced } from '../paced.ts';

const FILE_MODE = 0o600;
const SEQ_DIGITS = 8;
const PROOF_SUFFIX = '.proved';
const MAX_PROOF_BYTES = 1024;
const proofShape = z.strictObject({
  version: z.literal(1),
  sha256: z.hash('sha256'),
  provedMs: z.int().positive(),
  /** Absent in files of earlier releases. */
  proof: proofPlaceShape.optional(),
});
/** Files with these errors are of no use to anybody, and are deleted. */
const UNUSABLE: readonly BackupError['code'][] = [
  'backup-not-a-backup',
  'backup-truncated',
  'backup-malformed',
  'backup-signature-invalid',
];

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
 * DIRECTORY/kept/NAME         complete and encrypted
 * DIRECTORY/kept/NAME.proved  hash of the file, and when its content was proved
 * DIRECTORY/work              the next file; on an encrypted disk, also the snapshots of its proof; emptied by every start
 * ```
 */
export class BackupRing {
  readonly #clock: Clock;
  readonly #files: FilePort;
  readonly #streams: StreamPort;
  /** Directory of the complete backups. */
  readonly kept: string;
  readonly work: string;
  /** Files that cannot be read or verified now, until the agent starts again. */
  readonly #skipped = new Set<string>();
  /** Files whose proof this run of the agent has written. */
  readonly #proofs = new Set<string>();

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

  /** Writes a piece of a file of the backup in progress. */
  append(path: string, offset: number, data: Uint8Array): Promise<void> {
    return this.#streams.writeAt(path, offset, data);
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
   * Writes beside the file that its content was proved. The record in etcd says so as well, but does not survive a recovery of
   * etcd, or a disk that was mounted late.
   */
  async keepProof({ name, sha256, provedMs, proof }: BackupRecord): Promise<void> {
    if (provedMs === undefined || this.#proofs.has(name)) return;
    const text = `${JSON.stringify({ version: 1, sha256, provedMs, proof })}\n`;
    await this.#files.writeAtomic(join(this.kept, name + PROOF_SUFFIX), text, { mode: FILE_MODE });
    this.#proofs.add(name);
  }

  /**
   * Creates the record of a file that has no record, e.g. after a crash or a recovery of etcd; undefined if the file is
   * damaged. A file that may still be good, but cannot be read or verified now, stays, and `list()` leaves it out until the agent
   * starts again. @throws the error of such a file
   */
  async describe(name: string, trust: RingTrust, signal: AbortSignal): Promise<BackupRecord | undefined> {
    const seq = Number.parseInt(name.slice(0, SEQ_DIGITS), 10);
    try {
      const found = await this.#verify(join(this.kept, name), trust, signal);
      const record = { version: 1 as const, seq, nodeId: trust.nodeId, name, ...found };
      return { ...record, ...(await this.#proofOf(name, found.sha256)) };
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof BackupError && UNUSABLE.includes(error.code)) return undefined;
      this.#skipped.add(name);
      throw error;
    }
  }

  /** Names of the kept files, oldest first. */
  async list(): Promise<readonly string[]> {
    const names = await this.#files.list(this.kept);
    return names.filter((name) => BACKUP_NAME.test(name) && !this.#skipped.has(name));
  }

  async remove(name: string): Promise<void> {
    await this.#files.remove(join(this.kept, name));
    await this.#files.remove(join(this.kept, name + PROOF_SUFFIX));
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

  async #proofOf(name: string, sha256: string): Promise<Pick<BackupRecord, 'provedMs' | 'proof'>> {
    const json = await readJson(this.#files, join(this.kept, name + PROOF_SUFFIX), MAX_PROOF_BYTES);
    const { data } = proofShape.safeParse(json);
    if (data?.sha256 !== sha256) return {};
    const { provedMs, proof } = data;
    return { provedMs, ...(proof && { proof }) };
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
