import type { FilePort } from '../../internal/file/index.ts';

/** Caches what was read from files and directories until their modification time or size changes. */
export class FileCache<T> {
  readonly #files: Pick<FilePort, 'stat'>;
  readonly #kept = new Map<string, { readonly written: string; readonly reading: T }>();

  constructor(files: Pick<FilePort, 'stat'>) {
    this.#files = files;
  }

  /** The result of `read`, or the cached one; undefined when the file does not exist. */
  async get(path: string, read: () => Promise<T>): Promise<T | undefined> {
    const stat = await this.#files.stat(path);
    if (stat === undefined) {
      this.#kept.delete(path);
      return undefined;
    }
    // The state of the file is read before its content, so that a file that is written meanwhile is read
    // again at the next call.
    const written = `${stat.modifiedMs} ${stat.sizeBytes}`;
    const kept = this.#kept.get(path);
    if (kept?.written === written) return kept.reading;
    const reading = await read();
    this.#kept.set(path, { written, reading });
    return reading;
  }
}
