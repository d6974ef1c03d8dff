import { randomBytes } from 'node:crypto';
import { open, rm, type FileHandle } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

/** What a crash may leave behind; no caller ever sees these names. */
export function isTemporary(name: string): boolean {
  return /^\..+\.[0-9a-f]{12}\.tmp$/.test(name);
}

/** Gives `work` a name beside `path` and leaves nothing of that name, unless it is the cleanup itself that fails. */
export async function withTemporary<T>(path: string, work: (temporary: string) => Promise<T>): Promise<T> {
  const temporary = join(dirname(path), `.${basename(path)}.${randomBytes(6).toString('hex')}.tmp`);
  const [done] = await Promise.allSettled([work(temporary)]);
  const [removed] = await Promise.allSettled([rm(temporary, { recursive: true, force: true })]);
  if (done.status === 'rejected') throw done.reason; // the first error counts
  if (removed.status === 'rejected') throw removed.reason;
  return done.value;
}

const LEAST_READ_BYTES = 4096;

/**
 * Everything up to the end of the file, or undefined when that is more than `maxBytes`. Sizes lie: kernel
 * files say 0, and files grow while they are read.
 */
export async function readAtMost(
  handle: FileHandle,
  expectedBytes: number,
  maxBytes: number,
): Promise<Uint8Array | undefined> {
  // One more byte shows that there is no more. Files of /proc/sys give what one read has room for, and then nothing.
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

/** A new file, complete and durable. Its directory is synced by the caller, when the name is final. */
export async function writeSynced(path: string, data: Uint8Array | string, mode: number): Promise<void> {
  await using handle = await open(path, 'wx', mode);
  await handle.chmod(mode); // the umask must not widen or narrow what was asked for
  await handle.writeFile(data);
  await handle.sync();
}

/** Makes the names in a directory durable. */
export async function syncDirectory(path: string): Promise<void> {
  await using handle = await open(path, 'r');
  await handle.sync();
}
