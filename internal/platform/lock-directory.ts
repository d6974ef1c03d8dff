import { randomUUID } from 'node:crypto';
import { basename, dirname, join } from 'node:path';
import { FileError, readText, type FilePort } from '../file/index.ts';

const MAX_HOLDER_BYTES = 8192;
/** The latest possible time: the lock is never stale by its age. */
const NEVER_OLD = new Date(8.64e15);

type Done = (error?: unknown) => void;

/**
 * The directory of a lock, as the file system that proper-lockfile works on (its option `fs`). It differs from a plain directory in
 * two points: it appears together with the file that describes its holder, in one rename(2), so that every lock has a known holder;
 * and its modification time is fixed, so that no clock makes it stale.
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
      // Gone: another process has removed it as a leftover. That counts as a held lock, and the caller tries again.
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
  // An empty directory is not a lock either: the next holder replaces it.
  return text === undefined ? { kind: 'gone' } : { kind: 'text', text };
}

/**
 * Moves the lock of a holder that has ended aside, to a path with the id of that holder. The path stays until a later holder releases
 * the lock: a slower process that has judged the same holder ended finds the path taken, and does not move the lock of a running one.
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
    if (isTaken(error) || isGone(error)) return; // another process was faster
    throw error;
  }
  // The path had been removed already, and the lock of a running process was moved: it is moved back.
  const moved = await readHolderText(files, aside);
  if (moved.kind === 'text' && moved.text !== holder.text) await files.rename(aside, path);
}

/** Removes what killed processes have left: directories that never became a lock, and locks that were moved aside. */
async function removeLeftovers(files: FilePort, path: string): Promise<void> {
  const directory = dirname(path);
  const leftovers = (await files.list(directory)).filter((name) => name.startsWith(`${basename(path)}.`));
  for (const name of leftovers) {
    try {
      await files.remove(join(directory, name));
    } catch (error) {
      if (!isTaken(error) && !isGone(error)) throw error;
      // Another process is preparing it right now, and notices if it is removed.
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
