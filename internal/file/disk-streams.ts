import { constants } from 'node:fs';
import { copyFile, open, rename, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { fileError } from './errors.ts';

const CHUNK_BYTES = 256 * 1024;

/** Big files as a port: never whole in memory. Every method rejects with a `FileError`. */
export interface StreamPort {
  /**
   * The bytes from `offset` on, in chunks. A symbolic link at the path is refused. With `into` each chunk is a part of that
   * buffer and holds only until the next is asked for: who looks at hundreds of megabytes once gives V8 nothing to collect.
   */
  readChunks(
    path: string,
    options: { readonly offset?: number; readonly into?: Uint8Array; readonly signal: AbortSignal },
  ): AsyncIterable<Uint8Array>;
  /** Writes at `offset` (0600; created when it does not exist). Not durable before `publish`. */
  writeAt(path: string, offset: number, bytes: Uint8Array): Promise<void>;
  /** fsync, set the mode, rename, fsync of the directory: durable and complete under its new name. */
  publish(from: string, to: string, mode: number): Promise<void>;
  /** Copies a whole file inside the kernel, sharing blocks where the file system can. Not durable before `publish`. */
  copy(from: string, to: string): Promise<void>;
  /** Bytes that an unprivileged writer may still use where `path` lies. */
  freeBytes(path: string): Promise<number>;
}

/** The real disk. */
export class DiskStreams implements StreamPort {
  async *readChunks(
    path: string,
    options: { readonly offset?: number; readonly into?: Uint8Array; readonly signal: AbortSignal },
  ): AsyncGenerator<Uint8Array> {
    const doing = `reading ${path}`;
    const handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW).catch((error: unknown) => {
      throw fileError(doing, error);
    });
    await using closing = handle;
    for (let position = options.offset ?? 0; ;) {
      options.signal.throwIfAborted();
      // A fresh buffer each time unless one was given: the consumer may keep it.
      const into = options.into ?? Buffer.allocUnsafe(CHUNK_BYTES);
      const { bytesRead, buffer } = await closing
        .read(into, 0, into.length, position)
        .catch((error: unknown) => {
          throw fileError(doing, error);
        });
      if (bytesRead === 0) return;
      position += bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
  }

  async writeAt(path: string, offset: number, bytes: Uint8Array): Promise<void> {
    try {
      await using handle = await open(
        path,
        constants.O_WRONLY | constants.O_CREAT | constants.O_NOFOLLOW,
        0o600,
      );
      for (let done = 0; done < bytes.length;) {
        const { bytesWritten } = await handle.write(bytes, done, bytes.length - done, offset + done);
        done += bytesWritten;
      }
    } catch (error) {
      throw fileError(`writing ${path}`, error);
    }
  }

  async publish(from: string, to: string, mode: number): Promise<void> {
    try {
      await using file = await open(from, 'r');
      await file.chmod(mode);
      await file.sync();
      await rename(from, to);
      await using folder = await open(dirname(to), 'r');
      await folder.sync();
    } catch (error) {
      throw fileError(`publishing ${to}`, error);
    }
  }

  async copy(from: string, to: string): Promise<void> {
    await copyFile(from, to, constants.COPYFILE_FICLONE).catch((error: unknown) => {
      throw fileError(`copying ${from} to ${to}`, error);
    });
  }

  async freeBytes(path: string): Promise<number> {
    const { bavail, bsize } = await statfs(path).catch((error: unknown) => {
      throw fileError(`looking at the space of ${path}`, error);
    });
    return bavail * bsize;
  }
}
