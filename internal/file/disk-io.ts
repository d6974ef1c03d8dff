import { randomBytes } from 'node:crypto';
import { open, rm, type FileHandle } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

/**
 * Whether a file name is the name of a temporary file, which a crash may leave behind. `DiskFiles.list` hides such
 * files.
 * @param path if given, only temporary files of this path count
 */
export function isTemporary(name: string, path?: string): boolean {
  const of = /^\.(.+)\.[0-9a-f]{12}\.tmp$/.exec(name)?.[1];
  return of !== undefined && (path === undefined || of === basename(path));
}

/**
 * Calls `work` with a temporary path in the directory of `path`. Afterwards removes the file at that path,
 * if one is left.
 */
export async function withTemporary<T>(path: string, work: (temporary: string) => Promise<T>): Promise<T> {
  const temporary = join(dirname(path), `.${basename(path)}.${randomBytes(6).toString('hex')}.tmp`);
  const [done] = await Promise.allSettled([work(temporary)]);
  const [removed] = await Promise.allSettled([rm(temporary, { recursive: true, force: true })]);
  if (done.status === 'rejected') throw done.reason; // only the first error is reported
  if (removed.status === 'rejected') throw removed.reason;
  return done.value;
}

const LEAST_READ_BYTES = 4096;

/**
 * Reads to the end of the file; undefined when it has more than `maxBytes`. The stated size is a hint only: it is 0 for kernel
 * files, and files grow while they are read.
 */
export async function readAtMost(
  handle: FileHandle,
  expectedBytes: number,
  maxBytes: number,
): Promise<Uint8Array | undefined> {
  // The additional byte detects the end of the file. Files of /proc/sys return data for the first read
  // only, so the buffer must be large enough.
  let buffer = new Uint8Array(Math.max(expectedBytes + 1, LEAST_READ_BYTES));
  for (let length = 0; ;) {
    const { bytesRead } = await handle.read(buffer, length, buffer.length - length, null);
    if (bytesRead === 0) return buffer.slice(0, length);
    length += bytesRead;
    if (length > maxBytes) return undefined;
    if (length < buffer.length) continue;
    const larger = new Uint8Array(Math.min(2 * buffer.length + 4096, maxBytes + 1));
    larger.set(buffer);
    buffer = larger;
  }
}

/** Writes a new file and syncs its content. The caller syncs the directory when the file has its final name. */
export async function writeSynced(path: string, data: Uint8Array | string, mode: number): Promise<void> {
  await using handle = await open(path, 'wx', mode);
  await handle.chmod(mode); // independent of the umask
  await handle.writeFile(data);
  await handle.sync();
}

/** Turns the error of a path that does not exist into undefined. */
export function undefinedIfAbsent(error: NodeJS.ErrnoException): undefined {
  if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return undefined;
  throw error;
}

/** Makes the names in a directory durable (fsync). */
export async function syncDirectory(path: string): Promise<void> {
  await using handle = await open(path, 'r');
  await handle.sync();
}
