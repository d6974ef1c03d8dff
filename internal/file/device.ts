import { open, type FileHandle } from 'node:fs/promises';
import { attempt } from './errors.ts';

/**
 * An open character device. Each write and each read is one system call, which many devices treat as one
 * message.
 */
export interface DeviceHandle extends AsyncDisposable {
  /** Writes all bytes in one write(2); a shorter write is an error. */
  write(bytes: Uint8Array): Promise<void>;
  /** One read(2) of at most `maxBytes`. */
  read(maxBytes: number): Promise<Uint8Array>;
}

/** Opens a device for reading and writing. Rejects with a `FileError`. */
export async function openDevice(path: string): Promise<DeviceHandle> {
  return attempt(`opening ${path}`, async () => new Device(path, await open(path, 'r+')));
}

class Device implements DeviceHandle {
  readonly #path: string;
  readonly #handle: FileHandle;
  #closed = false;

  constructor(path: string, handle: FileHandle) {
    this.#path = path;
    this.#handle = handle;
  }

  async write(bytes: Uint8Array): Promise<void> {
    await attempt(`writing to ${this.#path}`, async () => {
      const { bytesWritten } = await this.#handle.write(bytes, 0, bytes.length, null);
      if (bytesWritten !== bytes.length) throw new Error(`${bytesWritten} of ${bytes.length} bytes written`);
    });
  }

  async read(maxBytes: number): Promise<Uint8Array> {
    return attempt(`reading from ${this.#path}`, async () => {
      const buffer = new Uint8Array(maxBytes);
      const { bytesRead } = await this.#handle.read(buffer, 0, maxBytes, null);
      return buffer.slice(0, bytesRead);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#handle.close();
  }
}
