import type { Stats } from 'node:fs';
import { chmod, link, lstat, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import {
  isTemporary,
  readAtMost,
  syncDirectory,
  undefinedIfAbsent,
  withTemporary,
  writeSynced,
} from './disk-io.ts';
import { attempt, FileError } from './errors.ts';
import type {
  AppendPort,
  FilePort,
  FileStat,
  ListOptions,
  OutputPort,
  WriteOptions,
  WriteTarget,
} from './file-port.ts';
import { refuseSpecialFile, resolveTarget, writeInto } from './write-target.ts';

const SECRET_FILE = 0o600;
const SECRET_DIRECTORY = 0o700;

/** The files of this machine. */
export class DiskFiles implements FilePort, OutputPort, AppendPort {
  async read(path: string, maxBytes: number): Promise<Uint8Array | undefined> {
    return attempt(`reading ${path}`, async () => {
      await using handle = await open(path, 'r').catch(undefinedIfAbsent);
      if (handle === undefined) return undefined;
      const stat = await handle.stat();
      const size = stat.isFile() ? stat.size : 0; // stat(2) gives a size for a directory too
      if (size > maxBytes) throw tooLarge(path, maxBytes);
      const bytes = await readAtMost(handle, size, maxBytes);
      if (bytes === undefined) throw tooLarge(path, maxBytes);
      return bytes;
    });
  }

  async writeAtomic(path: string, data: Uint8Array | string, options: WriteOptions = {}): Promise<void> {
    await attempt(`writing ${path}`, async () => {
      await refuseSpecialFile(path);
      await withTemporary(path, async (temporary) => {
        await writeSynced(temporary, data, options.mode ?? SECRET_FILE);
        await rename(temporary, path);
      });
      await syncDirectory(dirname(path));
    });
  }

  async createExclusive(
    path: string,
    data: Uint8Array | string,
    options: WriteOptions = {},
  ): Promise<boolean> {
    return attempt(`creating ${path}`, () =>
      withTemporary(path, async (temporary) => {
        // link(2) of a complete, synced file: a crash leaves no incomplete file.
        await writeSynced(temporary, data, options.mode ?? SECRET_FILE);
        const created = await unlessExists(this.link(temporary, path)).catch((error: unknown) => {
          if (isWithoutLinks(error)) return moveToNewName(temporary, path);
          throw error;
        });
        if (created) await syncDirectory(dirname(path));
        return created;
      }),
    );
  }

  /** link(2); a test replaces it by that of a file system without links. */
  protected link(from: string, to: string): Promise<void> {
    return link(from, to);
  }

  async resolveTarget(path: string): Promise<WriteTarget> {
    return attempt(`writing ${path}`, () => resolveTarget(path));
  }

  async writeInto(path: string, data: Uint8Array | string): Promise<void> {
    await attempt(`writing ${path}`, () => writeInto(path, data));
  }

  async appendSynced(path: string, data: string): Promise<void> {
    await attempt(`appending to ${path}`, async () => {
      await using handle = await open(path, 'a', SECRET_FILE);
      const isNew = (await handle.stat()).size === 0;
      await handle.writeFile(data);
      await handle.datasync();
      if (isNew) await syncDirectory(dirname(path));
    });
  }

  async makeDirectory(path: string, mode = SECRET_DIRECTORY): Promise<void> {
    await attempt(`creating directory ${path}`, () => makeDirectory(resolve(path), mode));
  }

  async remove(path: string): Promise<void> {
    await attempt(`removing ${path}`, async () => {
      if ((await lstat(path).catch(undefinedIfAbsent)) === undefined) return;
      await rm(path, { recursive: true, force: true });
      await syncDirectory(dirname(path));
    });
  }

  async rename(from: string, to: string): Promise<void> {
    await attempt(`renaming ${from} to ${to}`, async () => {
      await rename(from, to);
      await syncDirectory(dirname(to));
      if (dirname(from) !== dirname(to)) await syncDirectory(dirname(from));
    });
  }

  async removeTemporary(path: string): Promise<void> {
    await attempt(`removing temporary files of ${path}`, async () => {
      const parent = dirname(path);
      const names = ((await readdir(parent).catch(undefinedIfAbsent)) ?? []).filter((name) =>
        isTemporary(name, path),
      );
      for (const name of names) await rm(join(parent, name), { recursive: true, force: true });
      if (names.length > 0) await syncDirectory(parent);
    });
  }

  async sync(path: string): Promise<void> {
    await attempt(`syncing ${path}`, async () => {
      await using handle = await open(path, 'r');
      await handle.sync();
      await syncDirectory(dirname(path));
    });
  }

  async list(path: string, { temporary = false }: ListOptions = {}): Promise<readonly string[]> {
    return attempt(`listing ${path}`, async () =>
      ((await readdir(path).catch(undefinedIfAbsent)) ?? [])
        .filter((name) => temporary || !isTemporary(name))
        .sort(),
    );
  }

  async stat(path: string): Promise<FileStat | undefined> {
    return attempt(`reading attributes of ${path}`, async () => {
      const stat = await lstat(path).catch(undefinedIfAbsent);
      if (stat === undefined) return undefined;
      return { kind: kindOf(stat), sizeBytes: stat.size, mode: stat.mode & 0o7777, modifiedMs: stat.mtimeMs };
    });
  }
}

/** Errors of link(2) on file systems without links: FAT and exFAT (USB sticks), and some network file systems. */
function isWithoutLinks(error: unknown): boolean {
  return ['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'].includes((error as NodeJS.ErrnoException).code ?? '');
}

/**
 * Moves a file to a name that no file has. O_EXCL reserves the name, so that only one caller gets it. A crash between the
 * two calls leaves an empty file, never an incomplete one.
 */
async function moveToNewName(from: string, to: string): Promise<boolean> {
  const isReserved = await unlessExists(writeSynced(to, '', SECRET_FILE));
  if (!isReserved) return false;
  try {
    await rename(from, to);
  } catch (error) {
    await rm(to, { force: true });
    throw error;
  }
  return true;
}

/** Whether the call has created the file. */
function unlessExists(creating: Promise<void>): Promise<boolean> {
  return creating.then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'EEXIST') return false;
      throw error;
    },
  );
}

/**
 * Creates the directory under a temporary name, and renames it when it has its mode. The umask narrows the mode that
 * mkdir(2) sets. After a crash between mkdir(2) and chmod(2), nothing would correct the mode of a directory that
 * already has its final name.
 */
async function makeDirectory(path: string, mode: number): Promise<void> {
  if (await isDirectory(path)) return;
  await makeDirectory(dirname(path), mode);
  await withTemporary(path, async (temporary) => {
    await mkdir(temporary, { mode });
    await chmod(temporary, mode);
    await rename(temporary, path).catch(async (error: unknown) => {
      if (!(await isDirectory(path))) throw error; // another process has created the directory in the meantime
    });
  });
  await syncDirectory(dirname(path));
}

async function isDirectory(path: string): Promise<boolean> {
  return (await stat(path).catch(undefinedIfAbsent))?.isDirectory() ?? false;
}

function kindOf(stat: Stats): FileStat['kind'] {
  if (stat.isFile()) return 'file';
  if (stat.isDirectory()) return 'directory';
  return stat.isSymbolicLink() ? 'symlink' : 'other';
}

function tooLarge(path: string, maxBytes: number): FileError {
  return new FileError('file-too-large', `reading ${path}: more than ${maxBytes} bytes`);
}
