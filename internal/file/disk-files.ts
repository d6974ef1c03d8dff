import { randomBytes } from 'node:crypto';
import { link, lstat, mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { appendSynced, type AppendPort } from './append.ts';
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
      const { size } = await handle.stat();
      if (size > maxBytes) {
        throw new FileError('file-too-large', `reading ${path}: ${size} bytes, at most ${maxBytes} expected`);
      }
      return new Uint8Array(await handle.readFile());
    });
  }

  async writeAtomic(path: string, data: Uint8Array | string, options: WriteOptions = {}): Promise<void> {
    await attempt(`writing ${path}`, async () => {
      const temporary = temporaryName(path);
      try {
        await writeSynced(temporary, data, options.mode ?? SECRET_FILE);
        await rename(temporary, path);
      } catch (error) {
        await rm(temporary, { force: true });
        throw error;
      }
      await syncFolder(dirname(path));
    });
  }

  async createExclusive(
    path: string,
    data: Uint8Array | string,
    options: WriteOptions = {},
  ): Promise<boolean> {
    return attempt(`creating ${path}`, async () => {
      // link(2) of a complete, synced file: a crash can't leave a half-written winner behind.
      const temporary = temporaryName(path);
      try {
        await writeSynced(temporary, data, options.mode ?? SECRET_FILE);
        const created = await link(temporary, path).then(
          () => true,
          (error: NodeJS.ErrnoException) => {
            if (error.code === 'EEXIST') return false;
            throw error;
          },
        );
        if (created) await syncFolder(dirname(path));
        return created;
      } finally {
        await rm(temporary, { force: true });
      }
    });
  }

  appendSynced(path: string, data: string): Promise<void> {
    return appendSynced(path, data);
  }

  async makeDirectory(path: string, mode = SECRET_FOLDER): Promise<void> {
    await attempt(`creating folder ${path}`, () => mkdir(path, { recursive: true, mode }));
  }

  async remove(path: string): Promise<void> {
    await attempt(`removing ${path}`, () => rm(path, { recursive: true, force: true }));
  }

  async rename(from: string, to: string): Promise<void> {
    await attempt(`renaming ${from} to ${to}`, async () => {
      await rename(from, to);
      await syncFolder(dirname(to));
    });
  }

  async list(path: string): Promise<readonly string[]> {
    return attempt(`listing ${path}`, async () =>
      ((await readdir(path).catch(undefinedIfAbsent)) ?? []).sort(),
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

function undefinedIfAbsent(error: NodeJS.ErrnoException): undefined {
  if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return undefined;
  throw error;
}

function temporaryName(path: string): string {
  return join(dirname(path), `.${basename(path)}.${randomBytes(6).toString('hex')}.tmp`);
}

async function writeSynced(path: string, data: Uint8Array | string, mode: number): Promise<void> {
  await using handle = await open(path, 'wx', mode);
  await handle.chmod(mode); // the umask must not widen or narrow what was asked for
  await handle.writeFile(data);
  await handle.sync();
}

async function syncFolder(path: string): Promise<void> {
  await using handle = await open(path, 'r');
  await handle.sync();
}
