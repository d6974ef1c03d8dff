import { open, type FileHandle } from 'node:fs/promises';
import { fileError } from './errors.ts';

/** An open character device. Each write and each read is one system call, which is one message for many devices. */
export interface DeviceHandle extends AsyncDisposable {
  /** All bytes in one write(2); a device that takes fewer is an error. */
  write(bytes: Uint8Array): Promise<void>;
  /** One read(2) of at most `maxBytes`. */
  read(maxBytes: number): Promise<Uint8Array>;
}

/** Opens a device for reading and writing. Rejects with a `FileError`. */
export async function openDevice(path: string): Promise<DeviceHandle> {
  try {
    return new Device(path, await open(path, 'r+'));
  } catch (error) {
    throw fileError(`opening ${path}`, error);
  }
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
    try {
      const { bytesWritten } = await this.#handle.write(bytes, 0, bytes.length, null);
      if (bytesWritten !== bytes.length) throw new Error(`${bytesWritten} of ${bytes.length} bytes taken`);
    } catch (error) {
      throw fileError(`writing to ${this.#path}`, error);
    }
  }

  async read(maxBytes: number): Promise<Uint8Array> {
    try {
      const buffer = new Uint8Array(maxBytes);
      const { bytesRead } = await this.#handle.read(buffer, 0, maxBytes, null);
      return buffer.slice(0, bytesRead);
    } catch (error) {
      throw fileError(`reading from ${this.#path}`, error);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#handle.close();
  }
}
