import { mkdir, open, rmdir } from 'node:fs/promises';
import { attempt } from './errors.ts';

/**
 * Interface (port) to attributes of configfs and sysfs. They are not regular files: each write is one message to a driver, a read may take a
 * second, stated sizes are wrong, and a rename is not possible. Every method rejects with a `FileError` with `details.errno`.
 */
export interface KernelFilePort {
  /** Creates one directory, which creates an object in configfs. Fails when it exists. */
  makeDirectory(path: string): Promise<void>;
  removeDirectory(path: string): Promise<void>;
  /** All bytes of an attribute, at most `maxBytes`. */
  readAttribute(path: string, maxBytes: number): Promise<Uint8Array>;
  /** One write(2) with all of `data`. */
  writeAttribute(path: string, data: Uint8Array): Promise<void>;
}

/** The attributes of this machine's kernel. */
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
      // stat(2) says 0 or 4096 bytes for every attribute.
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
      if (bytesWritten !== data.length) throw new Error(`${bytesWritten} of ${data.length} bytes written`);
    });
  }
}
