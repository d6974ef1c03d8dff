import type { FilePort } from '../../internal/file/index.ts';
import { NodeLockError } from './errors.ts';

const MAX_BYTES = 16 * 1024;
const VERSION = 1;

/** Who locks the machine, and to what. The same claim may be made again after a crash. */
export interface LockClaim {
  /** 16 bytes in lower-case hex. */
  readonly clusterId: string;
  readonly by: 'init' | 'join';
  /** The init id, or the id of the join's ticket. */
  readonly id: string;
}

export interface LockRecord extends LockClaim {
  readonly version: number;
  readonly lockedAtMs: number;
}

/**
 * The one-way lock of a machine: unlocked → locked, no way back. Created exclusively and synced, so that of an init and
 * a join in the same instant exactly one wins, and a restart finds the winner.
 */
export class NodeLock {
  readonly #files: FilePort;
  readonly #path: string;
  readonly #nowMs: () => number;

  constructor(options: { readonly files: FilePort; readonly path: string; readonly nowMs: () => number }) {
    this.#files = options.files;
    this.#path = options.path;
    this.#nowMs = options.nowMs;
  }

  /** What the machine is bound to; undefined while it is unlocked. A damaged record is never "unlocked". */
  async read(): Promise<LockRecord | undefined> {
    const raw = await this.#files.read(this.#path, MAX_BYTES);
    return raw === undefined ? undefined : parseLockRecord(raw, this.#path);
  }

  /** Wins the lock, or finds it won by the same claim before. Anyone else's is refused by name. */
  async acquire(claim: LockClaim): Promise<LockRecord> {
    const record: LockRecord = { version: VERSION, ...claim, lockedAtMs: this.#nowMs() };
    if (await this.#files.createExclusive(this.#path, `${JSON.stringify(record)}\n`)) return record;
    const held = await this.read();
    if (held === undefined)
      throw new NodeLockError(
        'nodelock-damaged',
        `locking the machine: ${this.#path} is there and can not be read`,
      );
    if (held.clusterId === claim.clusterId && held.by === claim.by && held.id === claim.id) return held;
    throw new NodeLockError(
      'nodelock-held',
      `locking the machine: bound to cluster ${held.clusterId} by ${held.by} ${held.id}`,
      {
        details: { clusterId: held.clusterId, by: held.by, id: held.id },
      },
    );
  }
}

function parseLockRecord(raw: Uint8Array, path: string): LockRecord {
  const damaged = (why: string, cause?: unknown): NodeLockError =>
    new NodeLockError('nodelock-damaged', `reading the node lock ${path}: ${why}`, {
      cause,
      details: { path },
    });
  let value: Partial<LockRecord> | null;
  try {
    value = JSON.parse(Buffer.from(raw).toString('utf8')) as Partial<LockRecord> | null;
  } catch (error) {
    throw damaged('no JSON', error);
  }
  if (typeof value !== 'object' || value === null) throw damaged('no object');
  const { version, clusterId, by, id, lockedAtMs } = value;
  if (version !== VERSION) throw damaged(`version ${String(version)}, expected ${VERSION}`);
  if (typeof clusterId !== 'string' || !/^[0-9a-f]{32}$/.test(clusterId)) throw damaged('no cluster id');
  if (by !== 'init' && by !== 'join') throw damaged('neither init nor join');
  if (typeof id !== 'string' || id === '' || typeof lockedAtMs !== 'number')
    throw damaged('no id or no time');
  return { version, clusterId, by, id, lockedAtMs };
}
