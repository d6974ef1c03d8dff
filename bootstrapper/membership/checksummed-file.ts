import { createHash } from 'node:crypto';
import { dirname } from 'node:path';
import { readText, type FilePort } from '../../internal/file/index.ts';
import { MembershipError } from './errors.ts';

const VERSION = 1;

/**
 * One JSON value on disk with a checksum. Saving replaces the whole file. A missing file means that there is
 * no value. A damaged file is an error, because no part of the agent may guess its content. Damaged files are
 * neither repaired nor removed.
 */
export class ChecksummedFile<T> {
  readonly path: string;
  readonly #files: FilePort;

  constructor(files: FilePort, path: string) {
    this.#files = files;
    this.path = path;
  }

  /** The saved value; undefined only when the file does not exist. @throws MembershipError `membership-damaged` */
  async load(): Promise<T | undefined> {
    const text = await readText(this.#files, this.path);
    if (text === undefined) return undefined;
    let stored: Partial<Stored<T>> | null;
    try {
      stored = JSON.parse(text) as Partial<Stored<T>> | null;
    } catch {
      throw this.#damaged('not JSON');
    }
    if (typeof stored !== 'object' || stored === null) throw this.#damaged('not a JSON object');
    if (stored.version !== VERSION)
      throw this.#damaged(`format version ${String(stored.version)}, expected ${VERSION}`);
    if (stored.value === undefined || stored.sha256 !== checksum(stored.value))
      throw this.#damaged('checksum mismatch');
    return stored.value;
  }

  /** Replaces the value. The new value is durable when the promise resolves. */
  async save(value: T): Promise<void> {
    const stored: Stored<T> = { version: VERSION, value, sha256: checksum(value) };
    await this.#files.makeDirectory(dirname(this.path));
    await this.#files.writeAtomic(this.path, `${JSON.stringify(stored)}\n`);
  }

  #damaged(why: string): MembershipError {
    return new MembershipError('membership-damaged', `reading ${this.path}: ${why}`, {
      details: { path: this.path },
    });
  }
}

interface Stored<T> {
  readonly version: number;
  readonly value: T;
  readonly sha256: string;
}

function checksum(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex');
}
