import { randomUUID } from 'node:crypto';
import { basename, dirname, join } from 'node:path';
import { FileError, type FilePort } from '../file/index.ts';

const MAX_HOLDER_BYTES = 8192;
/** The latest time there is: a lock's directory is never too old, whatever clocks say. */
const NEVER_OLD = new Date(8.64e15);

type Done = (error?: unknown) => void;

/**
 * The lock's directory as proper-lockfile sees a file system (its option `fs`). Two things differ from a plain directory: it
 * appears together with what its holder says of itself, in one rename(2), so that nobody ever meets a lock without a
 * name; and its time says nothing, so that no clock decides whether it is stale.
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
    void this.#appear(path).then(done, done);
  }

  rmdir(path: string, done: Done): void {
    void this.#vanish(path).then(() => done(), done);
  }

  stat(_path: string, done: (error: undefined, stat: { readonly mtime: Date }) => void): void {
    done(undefined, { mtime: this.#mtime });
  }

  utimes(_path: string, _accessed: Date, modified: Date, done: Done): void {
    this.#mtime = modified;
    done();
  }

  /** A rename onto a directory that is not empty fails, and a lock's directory never is: this is what lets only one in. */
  async #appear(path: string): Promise<NodeJS.ErrnoException | undefined> {
    const prepared = `${path}.${randomUUID()}`;
    try {
      await this.#files.makeDirectory(prepared);
      await this.#files.writeAtomic(join(prepared, 'holder.json'), this.#holder);
      await this.#files.rename(prepared, path);
      return undefined;
    } catch (error) {
      // Gone: somebody who left took it for a leftover. That is as if the lock were taken, and is tried again.
      if (!isTaken(error) && !isGone(error)) throw error;
      await this.#files.remove(prepared);
      return Object.assign(new Error(`${path} is there`), { code: 'EEXIST' });
    }
  }

  async #vanish(path: string): Promise<void> {
    await removeLeftovers(this.#files, path);
    const aside = `${path}.${randomUUID()}`;
    await this.#files.rename(path, aside);
    await this.#files.remove(aside);
  }
}

export type HolderText =
  { readonly kind: 'text'; readonly text: string } | { readonly kind: 'foreign' } | { readonly kind: 'gone' };

/** What the holder says of itself; `foreign` when the path is no lock of ours. */
export async function readHolderText(files: FilePort, path: string): Promise<HolderText> {
  const stat = await files.stat(path);
  if (stat !== undefined && stat.kind !== 'directory') return { kind: 'foreign' };
  const raw = await files.read(join(path, 'holder.json'), MAX_HOLDER_BYTES);
  // Also an empty directory is no lock: the next one replaces it.
  if (raw === undefined) return { kind: 'gone' };
  return { kind: 'text', text: Buffer.from(raw).toString('utf8') };
}

/**
 * Moves the lock of a dead holder out of the way. Its place is named after the dead and stays until somebody who got in
 * leaves again: whoever judged the same one dead, but comes later, finds the place taken and moves no living lock.
 */
export async function removeStaleLock(
  files: FilePort,
  path: string,
  dead: { readonly id: string; readonly text: string },
): Promise<void> {
  const grave = `${path}.${dead.id}`;
  try {
    await files.rename(path, grave);
  } catch (error) {
    if (isTaken(error) || isGone(error)) return; // somebody else was faster
    throw error;
  }
  // The grave was already cleared away and a living one was moved: it gets its lock back.
  const buried = await readHolderText(files, grave);
  if (buried.kind === 'text' && buried.text !== dead.text) await files.rename(grave, path);
}

/** What killed runs left: prepared directories that never became a lock, and locks of the dead. */
async function removeLeftovers(files: FilePort, path: string): Promise<void> {
  const folder = dirname(path);
  const leftovers = (await files.list(folder)).filter((name) => name.startsWith(`${basename(path)}.`));
  for (const name of leftovers) {
    try {
      await files.remove(join(folder, name));
    } catch (error) {
      if (!isTaken(error) && !isGone(error)) throw error;
      // It was none: somebody prepares it just now. Whether it goes or stays, they notice.
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
