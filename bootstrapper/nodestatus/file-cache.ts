import type { FilePort } from '../../internal/file/index.ts';

/** What was read of files and directories, for as long as each was last written when it was read. */
export class FileCache<T> {
  readonly #files: Pick<FilePort, 'stat'>;
  readonly #kept = new Map<string, { readonly written: string; readonly reading: T }>();

  constructor(files: Pick<FilePort, 'stat'>) {
    this.#files = files;
  }

  /** What `read` answers, or has answered; undefined where there is nothing. */
  async get(path: string, read: () => Promise<T>): Promise<T | undefined> {
    const stat = await this.#files.stat(path);
    if (stat === undefined) {
      this.#kept.delete(path);
      return undefined;
    }
    // Before it is read: what is written meanwhile is read again the next time.
    const written = `${stat.modifiedMs} ${stat.sizeBytes}`;
    const kept = this.#kept.get(path);
    if (kept?.written === written) return kept.reading;
    const reading = await read();
    this.#kept.set(path, { written, reading });
    return reading;
  }
}
