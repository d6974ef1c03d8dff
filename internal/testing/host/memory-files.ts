import { basename, dirname, resolve } from 'node:path';
import {
  FileError,
  type AppendPort,
  type FilePort,
  type FileStat,
  type OutputPort,
  type WriteOptions,
  type WriteTarget,
} from '../../file/index.ts';

interface MemoryFile {
  readonly kind: 'file';
  readonly bytes: Uint8Array;
  readonly mode: number;
  readonly modifiedMs: number;
}

interface MemoryDirectory {
  readonly kind: 'directory';
  readonly mode: number;
  readonly modifiedMs: number;
}

/** A disk in memory that behaves like `DiskFiles`; the same test suite runs against both. */
export class MemoryFiles implements FilePort, OutputPort, AppendPort {
  readonly #entries = new Map<string, MemoryFile | MemoryDirectory>([['/', directory(0o755)]]);
  /** Each change is one millisecond after the previous one. */
  #changes = 0;

  async read(path: string, maxBytes: number): Promise<Uint8Array | undefined> {
    const found = this.#entries.get(resolve(path));
    if (found === undefined) return undefined;
    if (found.kind === 'directory') throw failure(`reading ${path}`, 'EISDIR');
    if (found.bytes.length > maxBytes) {
      throw new FileError('file-too-large', `reading ${path}: more than ${maxBytes} bytes`);
    }
    return found.bytes.slice();
  }

  async writeAtomic(path: string, data: Uint8Array | string, options: WriteOptions = {}): Promise<void> {
    this.#assertDirectory(`writing ${path}`, dirname(resolve(path)));
    if (this.#entries.get(resolve(path))?.kind === 'directory') throw failure(`writing ${path}`, 'EISDIR');
    this.#put(resolve(path), file(data, options.mode));
  }

  async createExclusive(
    path: string,
    data: Uint8Array | string,
    options: WriteOptions = {},
  ): Promise<boolean> {
    this.#assertDirectory(`creating ${path}`, dirname(resolve(path)));
    if (this.#entries.has(resolve(path))) return false;
    this.#put(resolve(path), file(data, options.mode));
    return true;
  }

  async resolveTarget(path: string): Promise<WriteTarget> {
    const found = this.#entries.get(resolve(path));
    if (found?.kind === 'directory') throw failure(`writing ${path}`, 'EISDIR');
    return { kind: found === undefined ? 'none' : 'file', path: resolve(path) };
  }

  async writeInto(path: string): Promise<void> {
    throw failure(`writing ${path}`, 'ENXIO'); // no file of this disk is a device
  }

  async appendSynced(path: string, data: string): Promise<void> {
    const old = this.#entries.get(resolve(path));
    if (old?.kind === 'directory') throw failure(`appending to ${path}`, 'EISDIR');
    const before = old?.bytes ?? new Uint8Array();
    await this.writeAtomic(path, Buffer.concat([before, Buffer.from(data)]), {
      mode: old?.mode ?? 0o600,
    });
  }

  async makeDirectory(path: string, mode = 0o700): Promise<void> {
    const parts = resolve(path).split('/').filter(Boolean);
    for (let depth = 1; depth <= parts.length; depth++) {
      const at = `/${parts.slice(0, depth).join('/')}`;
      if (this.#entries.get(at)?.kind === 'file') throw failure(`creating directory ${path}`, 'ENOTDIR');
      if (!this.#entries.has(at)) this.#put(at, directory(mode));
    }
  }

  async remove(path: string): Promise<void> {
    for (const each of this.#below(path)) this.#entries.delete(each);
    this.#touch(dirname(resolve(path)));
  }

  async rename(from: string, to: string): Promise<void> {
    const doing = `renaming ${from} to ${to}`;
    if (!this.#entries.has(resolve(from))) throw failure(doing, 'ENOENT');
    this.#assertDirectory(doing, dirname(resolve(to)));
    const replaced = this.#entries.get(resolve(to));
    if (replaced !== undefined && this.#entries.get(resolve(from))?.kind === 'directory') {
      if (replaced.kind === 'file') throw failure(doing, 'ENOTDIR');
      if (this.#below(to).length > 1) throw failure(doing, 'ENOTEMPTY');
    }
    const moved = this.#below(from).map((each) => [each, this.#entries.get(each)] as const);
    for (const [each, entry] of moved) {
      this.#entries.delete(each);
      if (entry !== undefined) this.#entries.set(resolve(to) + each.slice(resolve(from).length), entry);
    }
    for (const each of [from, to]) this.#touch(dirname(resolve(each)));
  }

  async removeTemporary(_path: string): Promise<void> {
    // Writes in memory use no temporary names.
  }

  async sync(path: string): Promise<void> {
    if (!this.#entries.has(resolve(path))) throw failure(`syncing ${path}`, 'ENOENT');
  }

  async list(path: string): Promise<readonly string[]> {
    const parent = resolve(path);
    const found = this.#entries.get(parent);
    if (found?.kind === 'file') return [];
    return [...this.#entries.keys()]
      .filter((each) => each !== '/' && dirname(each) === parent)
      .map((each) => basename(each))
      .sort();
  }

  async stat(path: string): Promise<FileStat | undefined> {
    const found = this.#entries.get(resolve(path));
    if (found === undefined) return undefined;
    const { kind, mode, modifiedMs } = found;
    return { kind, mode, modifiedMs, sizeBytes: found.kind === 'file' ? found.bytes.length : 0 };
  }

  #put(path: string, entry: MemoryFile | MemoryDirectory): void {
    this.#entries.set(path, { ...entry, modifiedMs: ++this.#changes });
    this.#touch(dirname(path));
  }

  #touch(path: string): void {
    const found = this.#entries.get(path);
    if (found?.kind === 'directory') this.#entries.set(path, { ...found, modifiedMs: ++this.#changes });
  }

  /** The path and everything below it. */
  #below(path: string): readonly string[] {
    const top = resolve(path);
    return [...this.#entries.keys()].filter((each) => each === top || each.startsWith(`${top}/`));
  }

  #assertDirectory(doing: string, path: string): void {
    const found = this.#entries.get(path);
    if (found === undefined) throw failure(doing, 'ENOENT');
    if (found.kind === 'file') throw failure(doing, 'ENOTDIR');
  }
}

function file(data: Uint8Array | string, mode = 0o600): MemoryFile {
  return { kind: 'file', bytes: new Uint8Array(Buffer.from(data)), mode, modifiedMs: 0 };
}

function directory(mode: number): MemoryDirectory {
  return { kind: 'directory', mode, modifiedMs: 0 };
}

/** The codes of internal/file for these errors. */
const CODES: Readonly<Record<string, 'file-missing' | 'file-wrong-kind'>> = {
  ENOENT: 'file-missing',
  EISDIR: 'file-wrong-kind',
  ENOTDIR: 'file-wrong-kind',
};

function failure(doing: string, errno: string): FileError {
  return new FileError(CODES[errno] ?? 'file-io', doing, { cause: new Error(errno), details: { errno } });
}
