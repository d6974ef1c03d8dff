import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { FilePort, StreamPort } from '../../internal/file/index.ts';
import { readAvailableMemory, readStorageProtection } from '../../internal/platform/index.ts';
import { formatBytes } from '../host/index.ts';
import { BackupCommandError } from './errors.ts';

/** `cluster-backup-PID-RANDOM`: the process tells whether the directory is still in use. */
const NAME = /^cluster-backup-([1-9]\d*)-[0-9a-f]{16}$/;
/** The decrypted snapshots are as large as the file, and so are the databases that are restored from them. */
const COPIES = 2;
/** etcd allocates 64 MiB for the write-ahead log of each database. */
const LOGS_BYTES = 2 * 64 * 1024 * 1024;

/** Where a command decrypts a backup. */
export interface WorkDirectoryOptions {
  /** The parent directory. */
  readonly base: string;
  /** Size of the encrypted file in bytes. */
  readonly fileBytes: number;
  readonly pid: number;
}

/**
 * Runs `work` with a new directory for the decrypted backup, and deletes the directory afterwards. Directories of killed processes are
 * deleted first: they contain what only owners may read, and `/dev/shm` keeps them in memory until the next boot.
 * @throws BackupCommandError `backup-work-space`
 */
export async function withWorkDirectory<T>(
  { files, streams }: { readonly files: FilePort; readonly streams: Pick<StreamPort, 'freeBytes'> },
  { base, fileBytes, pid }: WorkDirectoryOptions,
  work: (directory: string) => Promise<T>,
): Promise<T> {
  await files.makeDirectory(base);
  await deleteLeftovers(files, base);
  const needed = COPIES * fileBytes + LOGS_BYTES;
  const free = await freeBytesOf({ files, streams }, base);
  if (free < needed) {
    const sizes = `${formatBytes(free)} free, ${formatBytes(needed)} needed`;
    throw new BackupCommandError('backup-work-space', `decrypting the backup in ${base}: ${sizes}`);
  }
  const directory = join(base, `cluster-backup-${pid}-${randomBytes(8).toString('hex')}`);
  await files.makeDirectory(directory);
  try {
    return await work(directory);
  } finally {
    await files.remove(directory);
  }
}

/** A file system in memory promises more space than there is memory: /dev/shm half of all memory, used or not. */
async function freeBytesOf(
  { files, streams }: { readonly files: FilePort; readonly streams: Pick<StreamPort, 'freeBytes'> },
  base: string,
): Promise<number> {
  const free = await streams.freeBytes(base);
  if ((await readStorageProtection(files, [base])).get(base) !== 'memory') return free;
  return Math.min(free, (await readAvailableMemory(files)) ?? free);
}

async function deleteLeftovers(files: FilePort, base: string): Promise<void> {
  for (const name of await files.list(base)) {
    const pid = NAME.exec(name)?.[1];
    if (pid === undefined || (await files.stat(`/proc/${pid}`)) !== undefined) continue;
    await files.remove(join(base, name)).catch(() => undefined); // it may belong to another user
  }
}
