import {
  FileError,
  type AppendPort,
  type FilePort,
  type FileStat,
  type ListOptions,
  type OutputPort,
  type WriteOptions,
  type WriteTarget,
} from '../../file/index.ts';
import { MemoryFiles } from './memory-files.ts';

/** The failure of the chosen write. After a crash, all later calls fail. */
export type Fault = 'crash-before' | 'crash-after' | 'no-space';

/** Thrown by every call at and after a crash, because only the disk survives. */
export class SimulatedCrash extends Error {
  override readonly name = 'SimulatedCrash';
}

type Files = FilePort & OutputPort & AppendPort;

/** A disk that fails at its n-th write, counted from 0. */
export class FaultyFiles implements FilePort, OutputPort, AppendPort {
  readonly #inner: Files;
  readonly #point: number;
  readonly #fault: Fault;
  readonly #writes: string[] = [];
  #dead = false;

  constructor(inner: Files, options: { readonly point: number; readonly fault: Fault }) {
    this.#inner = inner;
    this.#point = options.point;
    this.#fault = options.fault;
  }

  /** The writes so far as text: `writeAtomic /var/lib/cluster/state.json`. */
  get writes(): readonly string[] {
    return this.#writes;
  }

  read(path: string, maxBytes: number): Promise<Uint8Array | undefined> {
    return this.#look(() => this.#inner.read(path, maxBytes));
  }

  list(path: string, options?: ListOptions): Promise<readonly string[]> {
    return this.#look(() => this.#inner.list(path, options));
  }

  stat(path: string): Promise<FileStat | undefined> {
    return this.#look(() => this.#inner.stat(path));
  }

  resolveTarget(path: string): Promise<WriteTarget> {
    return this.#look(() => this.#inner.resolveTarget(path));
  }

  writeInto(path: string, data: Uint8Array | string): Promise<void> {
    return this.#write(`writeInto ${path}`, () => this.#inner.writeInto(path, data));
  }

  writeAtomic(path: string, data: Uint8Array | string, options?: WriteOptions): Promise<void> {
    return this.#write(`writeAtomic ${path}`, () => this.#inner.writeAtomic(path, data, options));
  }

  createExclusive(path: string, data: Uint8Array | string, options?: WriteOptions): Promise<boolean> {
    return this.#write(`createExclusive ${path}`, () => this.#inner.createExclusive(path, data, options));
  }

  appendSynced(path: string, data: string): Promise<void> {
    return this.#write(`appendSynced ${path}`, () => this.#inner.appendSynced(path, data));
  }

  makeDirectory(path: string, mode?: number): Promise<void> {
    return this.#write(`makeDirectory ${path}`, () => this.#inner.makeDirectory(path, mode));
  }

  remove(path: string): Promise<void> {
    return this.#write(`remove ${path}`, () => this.#inner.remove(path));
  }

  rename(from: string, to: string): Promise<void> {
    return this.#write(`rename ${from} ${to}`, () => this.#inner.rename(from, to));
  }

  removeTemporary(path: string): Promise<void> {
    return this.#write(`removeTemporary ${path}`, () => this.#inner.removeTemporary(path));
  }

  sync(path: string): Promise<void> {
    return this.#write(`sync ${path}`, () => this.#inner.sync(path));
  }

  async #look<T>(work: () => Promise<T>): Promise<T> {
    if (this.#dead) throw new SimulatedCrash('after the crash');
    return work();
  }

  async #write<T>(what: string, work: () => Promise<T>): Promise<T> {
    if (this.#dead) throw new SimulatedCrash('after the crash');
    const chosen = this.#writes.push(what) - 1 === this.#point;
    if (!chosen) return work();
    if (this.#fault === 'no-space')
      throw new FileError('file-no-space', what, { details: { errno: 'ENOSPC' } });
    this.#dead = true;
    if (this.#fault === 'crash-after') await work();
    throw new SimulatedCrash(`${this.#fault} ${what}`);
  }
}

/** One fault, the result of the run with this fault, and the disk after it. */
export interface FaultCase {
  /** For example `crash-after writeAtomic /var/lib/cluster/state.json`. */
  readonly name: string;
  readonly fault: Fault;
  readonly disk: MemoryFiles;
  /** The error that the run threw; undefined when the run handled the fault. */
  readonly error: unknown;
}

/**
 * Runs the same work once for each of its write points and each fault, each time on a fresh disk, and
 * passes the disk to the caller, which then proves that the next run can read it.
 */
export async function* everyFault(options: {
  readonly faults: readonly Fault[];
  /** Prepares the disk before the run. */
  readonly prepare: (disk: MemoryFiles) => Promise<void>;
  readonly run: (files: FaultyFiles) => Promise<unknown>;
}): AsyncGenerator<FaultCase> {
  for (const fault of options.faults) {
    for (let point = 0; ; point++) {
      const disk = new MemoryFiles();
      await options.prepare(disk);
      const files = new FaultyFiles(disk, { point, fault });
      const error: unknown = await options.run(files).then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      const what = files.writes[point];
      if (what === undefined) break; // the run has no write number `point`, so each write has had this fault
      yield { name: `${fault} ${what}`, fault, disk, error };
    }
  }
}
