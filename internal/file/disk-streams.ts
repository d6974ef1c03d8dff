import { constants } from 'node:fs';
import { copyFile, open, rename, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { syncDirectory } from './disk-io.ts';
import { attempt } from './errors.ts';
import { refuseSpecialFile } from './write-target.ts';

const CHUNK_BYTES = 256 * 1024;
const WRITE_FLAGS = constants.O_WRONLY | constants.O_CREAT | constants.O_NOFOLLOW;

/**
 * Interface (port) to large files, which are never in memory as a whole. Every method rejects with a
 * `FileError`.
 */
export interface StreamPort {
  /**
   * The bytes from `offset` on, in chunks. Refuses a symbolic link. With `into`, every chunk is a part of
   * that buffer and valid until the next chunk is requested. This saves the garbage collector hundreds of
   * megabytes when a file is only hashed.
   */
  readChunks(
    path: string,
    options: { readonly offset?: number; readonly into?: Uint8Array; readonly signal: AbortSignal },
  ): AsyncIterable<Uint8Array>;
  /** Writes at `offset`; creates the file (0600) if needed. Not durable before `publish`. */
  writeAt(path: string, offset: number, bytes: Uint8Array): Promise<void>;
  /** Syncs a file, sets its mode and renames it: it is complete and durable under its new name. */
  publish(from: string, to: string, mode: number): Promise<void>;
  /** Copies a file inside the kernel; shares blocks where the file system can. Not durable before `publish`. */
  copy(from: string, to: string): Promise<void>;
  /** Bytes that an unprivileged user may still write to the file system of `path`. */
  freeBytes(path: string): Promise<number>;
  /** Size and use of the file system of `path`. @throws FileError */
  fileSystem(path: string): Promise<FileSystem>;
}

/** Size and use of a file system. Space that only the root user may use does not count as available. */
export interface FileSystem {
  readonly sizeBytes: number;
  readonly availableBytes: number;
  /** 0 where the number is not fixed, as on btrfs. */
  readonly inodes: number;
  readonly inodesFree: number;
}

/** The large files of this machine. */
export class DiskStreams implements StreamPort {
  async *readChunks(
    path: string,
    options: { readonly offset?: number; readonly into?: Uint8Array; readonly signal: AbortSignal },
  ): AsyncGenerator<Uint8Array> {
    const doing = `reading ${path}`;
    await using handle = await attempt(doing, () => open(path, constants.O_RDONLY | constants.O_NOFOLLOW));
    for (let position = options.offset ?? 0; ;) {
      options.signal.throwIfAborted();
      // Without `into`, the caller may keep each chunk.
      const into = options.into ?? Buffer.allocUnsafe(CHUNK_BYTES);
      const { bytesRead } = await attempt(doing, () => handle.read(into, 0, into.length, position));
      if (bytesRead === 0) return;
      position += bytesRead;
      yield into.subarray(0, bytesRead);
    }
  }

  async writeAt(path: string, offset: number, bytes: Uint8Array): Promise<void> {
    await attempt(`writing ${path}`, async () => {
      await using handle = await open(path, WRITE_FLAGS, 0o600);
      for (let done = 0; done < bytes.length;) {
        const { bytesWritten } = await handle.write(bytes, done, bytes.length - done, offset + done);
        done += bytesWritten;
      }
    });
  }

  async publish(from: string, to: string, mode: number): Promise<void> {
    await attempt(`publishing ${to}`, async () => {
      await refuseSpecialFile(to);
      await using file = await open(from, 'r');
      await file.chmod(mode);
      await file.sync();
      await rename(from, to);
      await syncDirectory(dirname(to));
    });
  }

  async copy(from: string, to: string): Promise<void> {
    await attempt(`copying ${from} to ${to}`, () => copyFile(from, to, constants.COPYFILE_FICLONE));
  }

  async freeBytes(path: string): Promise<number> {
    return (await this.fileSystem(path)).availableBytes;
  }

  async fileSystem(path: string): Promise<FileSystem> {
    const { bavail, bsize, blocks, files, ffree } = await attempt(`reading the file system of ${path}`, () =>
      statfs(path),
    );
    return {
      ...{ sizeBytes: blocks * bsize, availableBytes: bavail * bsize },
      ...{ inodes: files, inodesFree: ffree },
    };
  }
}
