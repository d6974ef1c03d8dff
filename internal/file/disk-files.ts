import { chmod, link, lstat, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { appendSynced, type AppendPort } from './append.ts';
import { isTemporary, readAtMost, syncDirectory, withTemporary, writeSynced } from './disk-io.ts';
import { FileError, fileError } from './errors.ts';
import type { FilePort, FileStat, WriteOptions } from './file-port.ts';

const SECRET_FILE = 0o600;
const SECRET_FOLDER = 0o700;

/** The real disk. */
export class DiskFiles implements FilePort, AppendPort {
  async read(path: string, maxBytes: number): Promise<Uint8Array | undefined> {
    return attempt(`reading ${path}`, async () => {
      await using handle = await open(path, 'r').catch(undefinedIfAbsent);
      if (handle === undefined) return undefined;
      const stat = await handle.stat();
      const size = stat.isFile() ? stat.size : 0; // a directory has a size too
      if (size > maxBytes) throw tooLarge(path, maxBytes);
      const bytes = await readAtMost(handle, size, maxBytes);
      if (bytes === undefined) throw tooLarge(path, maxBytes);
      return bytes;
    });
  }

  async writeAtomic(path: string, data: Uint8Array | string, options: WriteOptions = {}): Promise<void> {
    await attempt(`writing ${path}`, async () => {
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
        // link(2) of a complete, synced file: a crash cannot leave a half-written winner behind.
        await writeSynced(temporary, data, options.mode ?? SECRET_FILE);
        const created = await link(temporary, path).then(
          () => true,
          (error: NodeJS.ErrnoException) => {
            if (error.code === 'EEXIST') return false;
            throw error;
          },
        );
        if (created) await syncDirectory(dirname(path));
        return created;
      }),
    );
  }

  async appendSynced(path: string, data: string): Promise<void> {
    await appendSynced(path, data);
  }

  async makeDirectory(path: string, mode = SECRET_FOLDER): Promise<void> {
    await attempt(`creating directory ${path}`, () => makeFolder(resolve(path), mode));
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

  async sync(path: string): Promise<void> {
    await attempt(`syncing ${path}`, async () => {
      await using handle = await open(path, 'r');
      await handle.sync();
      await syncDirectory(dirname(path));
    });
  }

  async list(path: string): Promise<readonly string[]> {
    return attempt(`listing ${path}`, async () =>
      ((await readdir(path).catch(undefinedIfAbsent)) ?? []).filter((name) => !isTemporary(name)).sort(),
    );
  }

  async stat(path: string): Promise<FileStat | undefined> {
    return attempt(`looking at ${path}`, async () => {
      const stat = await lstat(path).catch(undefinedIfAbsent);
      if (stat === undefined) return undefined;
      const kind = stat.isFile()
        ? 'file'
        : stat.isDirectory()
          ? 'directory'
          : stat.isSymbolicLink()
            ? 'symlink'
            : 'other';
      return { kind, sizeBytes: stat.size, mode: stat.mode & 0o7777, modifiedMs: stat.mtimeMs };
    });
  }
}

async function attempt<T>(doing: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw fileError(doing, error);
  }
}

/**
 * A directory gets its name when its mode is what was asked for: the umask narrows what mkdir(2) makes, and nobody would widen
 * it again after a crash between that and chmod(2).
 */
async function makeFolder(path: string, mode: number): Promise<void> {
  if (await isFolder(path)) return;
  await makeFolder(dirname(path), mode);
  await withTemporary(path, async (temporary) => {
    await mkdir(temporary, { mode });
    await chmod(temporary, mode);
    await rename(temporary, path).catch(async (error: unknown) => {
      if (!(await isFolder(path))) throw error; // somebody else has made it meanwhile
    });
  });
  await syncDirectory(dirname(path));
}

async function isFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(undefinedIfAbsent))?.isDirectory() ?? false;
}

function undefinedIfAbsent(error: NodeJS.ErrnoException): undefined {
  if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return undefined;
  throw error;
}

function tooLarge(path: string, maxBytes: number): FileError {
  return new FileError('file-too-large', `reading ${path}: more than ${maxBytes} bytes`);
}
