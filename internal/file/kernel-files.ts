import { mkdir, open, rmdir } from 'node:fs/promises';
import { fileError } from './errors.ts';

/**
 * Attributes of kernel file systems (configfs, sysfs) as a port. They are no files: a write is one message to a driver,
 * a read may compute for a second, sizes are made up, and temp-and-rename has no meaning. Every method rejects with a
 * `FileError` whose `details.errno` is the kernel's word.
 */
export interface KernelFilePort {
  /** Creates exactly this directory; in configfs that creates an object. Fails when it exists. */
  makeDirectory(path: string): Promise<void>;
  removeDirectory(path: string): Promise<void>;
  /** All bytes of an attribute, at most `maxBytes`. */
  readAttribute(path: string, maxBytes: number): Promise<Uint8Array>;
  /** One write(2) with all of `data`. */
  writeAttribute(path: string, data: Uint8Array): Promise<void>;
}

/** The real kernel. */
export class KernelFiles implements KernelFilePort {
  async makeDirectory(path: string): Promise<void> {
    await attempt(`creating ${path}`, () => mkdir(path, { mode: 0o700 }));
  }

  async removeDirectory(path: string): Promise<void> {
    await attempt(`removing ${path}`, () => rmdir(path));
  }

  async readAttribute(path: string, maxBytes: number): Promise<Uint8Array> {
    return attempt(`reading ${path}`, async () => {
      await using handle = await open(path, 'r');
      // No stat: kernel attributes say 0 or 4096, whatever they hold.
      const buffer = new Uint8Array(maxBytes + 1);
      let length = 0;
      while (length < buffer.length) {
        const { bytesRead } = await handle.read(buffer, length, buffer.length - length, null);
        if (bytesRead === 0) return buffer.slice(0, length);
        length += bytesRead;
      }
      throw new Error(`more than ${maxBytes} bytes`);
    });
  }

  async writeAttribute(path: string, data: Uint8Array): Promise<void> {
    await attempt(`writing ${path}`, async () => {
      await using handle = await open(path, 'w');
      const { bytesWritten } = await handle.write(data);
      if (bytesWritten !== data.length) throw new Error(`${bytesWritten} of ${data.length} bytes taken`);
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
