import { FileError, type KernelFilePort } from '../../file/index.ts';

export interface FakeTsmOptions {
  /**
   * The kernel's name of the provider. Undefined: no provider has registered, as on a machine without
   * confidential computing.
   */
  readonly provider: 'sev_guest' | 'tdx_guest' | undefined;
  /** Makes the report for a complete request. */
  readonly makeReport: (inblob: Uint8Array) => {
    readonly outblob: Uint8Array;
    readonly auxblob?: Uint8Array;
  };
}

interface Entry {
  inblob: Uint8Array;
  writes: number;
  /** The generation that `report` was made for; -1 before the first. */
  readWrites: number;
  report: { readonly outblob: Uint8Array; readonly auxblob?: Uint8Array };
}

const ROOT = '/sys/kernel/config/tsm/report';
const INBLOB_MAX = 64;

/**
 * The report subsystem of configfs-tsm in memory. Behaves like drivers/virt/coco/tsm.c: a directory is a
 * request; every write increments `generation`; the first read after a write makes the report; inblob takes
 * 1 to 64 bytes, and both providers require exactly 64; a provider without an auxiliary blob has no such
 * attribute.
 */
export class FakeTsm implements KernelFilePort {
  readonly #options: FakeTsmOptions;
  readonly #entries = new Map<string, Entry>();
  /**
   * The number of next reads of outblob that fail with EBUSY, as when the host is busy with another quote.
   */
  busyReads = 0;
  /** Called between the write of inblob and the read of outblob, so that another process can interfere. */
  onBeforeReport: (path: string) => void = () => undefined;

  constructor(options: FakeTsmOptions) {
    this.#options = options;
  }

  /** The number of requests that have not been removed. Zero at the end of a test. */
  get open(): number {
    return this.#entries.size;
  }

  async makeDirectory(path: string): Promise<void> {
    if (this.#options.provider === undefined) throw errno('ENXIO', path);
    if (!path.startsWith(`${ROOT}/`) || path.slice(ROOT.length + 1).includes('/')) throw errno('EPERM', path);
    if (this.#entries.has(path)) throw errno('EEXIST', path);
    this.#entries.set(path, {
      inblob: new Uint8Array(),
      writes: 0,
      readWrites: -1,
      report: { outblob: new Uint8Array() },
    });
  }

  async removeDirectory(path: string): Promise<void> {
    if (!this.#entries.delete(path)) throw errno('ENOENT', path);
  }

  async writeAttribute(path: string, data: Uint8Array): Promise<void> {
    const { entry, attribute } = this.#find(path);
    if (attribute !== 'inblob') throw errno(this.#names().includes(attribute) ? 'EACCES' : 'ENOENT', path);
    if (data.length === 0 || data.length > INBLOB_MAX) throw errno('EINVAL', path);
    entry.inblob = Uint8Array.from(data);
    entry.writes++;
  }

  async readAttribute(path: string, maxBytes: number): Promise<Uint8Array> {
    const { entry, attribute } = this.#find(path);
    const value = this.#value(entry, attribute, path);
    if (value.length > maxBytes) throw errno('EFBIG', path);
    return value;
  }

  #value(entry: Entry, attribute: string, path: string): Uint8Array {
    switch (attribute) {
      case 'provider':
        return Buffer.from(`${this.#options.provider}\n`);
      case 'generation':
        return Buffer.from(`${entry.writes}\n`);
      case 'outblob':
        return this.#report(entry, path).outblob;
      case 'auxblob':
        if (!this.#names().includes('auxblob')) throw errno('ENOENT', path);
        return this.#report(entry, path).auxblob ?? new Uint8Array();
      case 'inblob':
        throw errno('EACCES', path); // write-only
      default:
        throw errno('ENOENT', path);
    }
  }

  #report(entry: Entry, path: string): Entry['report'] {
    this.onBeforeReport(path.slice(0, path.lastIndexOf('/')));
    if (entry.inblob.length !== INBLOB_MAX) throw errno('EINVAL', path);
    if (this.busyReads > 0) {
      this.busyReads--;
      throw errno('EBUSY', path);
    }
    if (entry.readWrites !== entry.writes) {
      entry.report = this.#options.makeReport(entry.inblob);
      entry.readWrites = entry.writes;
    }
    return entry.report;
  }

  #names(): readonly string[] {
    const common = ['provider', 'generation', 'outblob', 'inblob'];
    return this.#options.provider === 'sev_guest'
      ? [...common, 'auxblob', 'privlevel', 'privlevel_floor']
      : common;
  }

  #find(path: string): { readonly entry: Entry; readonly attribute: string } {
    const slash = path.lastIndexOf('/');
    const entry = this.#entries.get(path.slice(0, slash));
    if (entry === undefined) throw errno('ENOENT', path);
    return { entry, attribute: path.slice(slash + 1) };
  }
}

function errno(code: string, path: string): FileError {
  return new FileError('file-io', `using ${path}`, { cause: new Error(code), details: { errno: code } });
}
