import { randomUUID } from 'node:crypto';
import { basename, dirname, join } from 'node:path';
import { FileError, readText, type FilePort } from '../file/index.ts';

const MAX_HOLDER_BYTES = 8192;
/** The latest possible time: the lock is never stale by its age. */
const NEVER_OLD = new Date(8.64e15);

type Done = (error?: unknown) => void;

/**
 * The directory of a lock, as the file system that proper-lockfile works on (its option `fs`). It differs
 * from a plain directory in two ways. It appears together with the file that describes its holder, in one
 * rename(2), so that every lock has a known holder. Its modification time is fixed, so that no change of
 * the clock makes it stale.
 */
export class LockDirectory {
  readonly path: string;
  readonly #files: FilePort;
  readonly #holder: string;
  #mtime = NEVER_OLD;

  constructor(files: FilePort, path: string, holder: string) {
    this.#files = files;
    this.path = path;
    this.#holder = holder;
  }

  mkdir(path: string, done: Done): void {
    void this.#create(path).then(done, done);
  }

  rmdir(path: string, done: Done): void {
    void this.#remove(path).then(() => done(), done);
  }

  stat(_path: string, done: (error: undefined, stat: { readonly mtime: Date }) => void): void {
    done(undefined, { mtime: this.#mtime });
  }

  utimes(_path: string, _accessed: Date, modified: Date, done: Done): void {
    this.#mtime = modified;
    done();
  }

  /** rename(2) onto a directory that is not empty fails, and the directory of a lock is never empty: only one process wins. */
  async #create(path: string): Promise<NodeJS.ErrnoException | undefined> {
    const prepared = `${path}.${randomUUID()}`;
    try {
      await this.#files.makeDirectory(prepared);
      await this.#files.writeAtomic(join(prepared, 'holder.json'), this.#holder);
      await this.#files.rename(prepared, path);
      return undefined;
    } catch (error) {
      // Another process has removed the directory as a leftover. The lock counts as held, and the caller
      // tries again.
      if (!isTaken(error) && !isGone(error)) throw error;
      await this.#files.remove(prepared);
      return Object.assign(new Error(`${path} exists`), { code: 'EEXIST' });
    }
  }

  async #remove(path: string): Promise<void> {
    await removeLeftovers(this.#files, path);
    const aside = `${path}.${randomUUID()}`;
    await this.#files.rename(path, aside);
    await this.#files.remove(aside);
  }
}

/** The description of the holder of a lock, as it is on disk. */
export type HolderText =
  { readonly kind: 'text'; readonly text: string } | { readonly kind: 'foreign' } | { readonly kind: 'gone' };

/** The description of the holder; `foreign` when the path is not a lock of ours. */
export async function readHolderText(files: FilePort, path: string): Promise<HolderText> {
  const stat = await files.stat(path);
  if (stat !== undefined && stat.kind !== 'directory') return { kind: 'foreign' };
  const text = await readText(files, join(path, 'holder.json'), MAX_HOLDER_BYTES);
  // An empty directory is not a lock. The next holder replaces it.
  return text === undefined ? { kind: 'gone' } : { kind: 'text', text };
}

/**
 * Moves the lock of a holder that has ended to a path that contains the holder's id. That path stays until a
 * later holder releases the lock. So a slower process, which also saw that the holder had ended, finds the
 * path taken and does not move the lock of a running process.
 */
export async function removeStaleLock(
  files: FilePort,
  path: string,
  holder: { readonly id: string; readonly text: string },
): Promise<void> {
  const aside = `${path}.${holder.id}`;
  try {
    await files.rename(path, aside);
  } catch (error) {
    if (isTaken(error) || isGone(error)) return; // another process has removed the lock
    throw error;
  }
  // The path had already been removed, so the lock of a running process was moved. It is moved back.
  const moved = await readHolderText(files, aside);
  if (moved.kind === 'text' && moved.text !== holder.text) await files.rename(aside, path);
}

/**
 * Removes what killed processes have left: incomplete lock directories, and stale locks that were moved.
 */
async function removeLeftovers(files: FilePort, path: string): Promise<void> {
  const directory = dirname(path);
  const leftovers = (await files.list(directory)).filter((name) => name.startsWith(`${basename(path)}.`));
  for (const name of leftovers) {
    try {
      await files.remove(join(directory, name));
    } catch (error) {
      if (!isTaken(error) && !isGone(error)) throw error;
      // Another process is preparing this directory right now, and detects its removal.
    }
  }
}

function isTaken(error: unknown): boolean {
  return ['ENOTEMPTY', 'EEXIST', 'ENOTDIR'].includes(errnoOf(error));
}

function isGone(error: unknown): boolean {
  return errnoOf(error) === 'ENOENT';
}

function errnoOf(error: unknown): string {
  return error instanceof FileError ? String(error.details['errno']) : '';
}
