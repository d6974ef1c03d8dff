import { lockedValue } from '../../internal/attestation/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { NodeLockError } from './errors.ts';

const MAX_BYTES = 16 * 1024;
const VERSION = 1;
/** A register that nothing has extended since the machine was switched on (TPM 2.0 Library, Part 1, 17). */
const POWER_ON = new Uint8Array(32);

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
  /** What the lock register held before, in hex; absent on a machine without one. */
  readonly registerBaseline?: string;
  /** What the lock counter held before, in decimal; absent on a machine that cannot count. */
  readonly counterBaseline?: string;
}

/** Goes up by one with each lock of this machine and never back, whatever happens to its disk. */
export interface LockCounter {
  /** Its value, once it counts; undefined where the machine has none. Idempotent. */
  start(): Promise<bigint | undefined>;
  increment(): Promise<void>;
}

/** The register in which verifiers see the lock: 32 bytes that can be extended and not set. */
export interface LockRegister {
  read(): Promise<Uint8Array>;
  extend(clusterId: string): Promise<void>;
  readonly counter?: LockCounter;
}

export interface NodeLockOptions {
  readonly files: FilePort;
  readonly path: string;
  readonly nowMs: () => number;
  /** Absent on a machine without a TPM: its lock is the file alone. */
  readonly register?: LockRegister;
}

/**
 * The one-way lock of a machine: unlocked → locked, no way back. Created exclusively and synced, so that of an init and
 * a join in the same instant exactly one wins, and a restart finds the winner.
 *
 * Register and counter follow the file: both read → file created → counted → register extended. A crash in between, and each reboot
 * (which resets the register), is made good by `mirror`; it must have succeeded before anything is quoted.
 */
export class NodeLock {
  readonly #options: NodeLockOptions;
  #mirroring: Promise<void> = Promise.resolve();

  constructor(options: NodeLockOptions) {
    this.#options = options;
  }

  /** What the machine is bound to; undefined while it is unlocked. A damaged record is never "unlocked". */
  async read(): Promise<LockRecord | undefined> {
    const { files, path } = this.#options;
    const raw = await files.read(path, MAX_BYTES);
    return raw === undefined ? undefined : parseLockRecord(raw, path);
  }

  /** Wins the lock, or finds it won by the same claim before. Anyone else's is refused by name. */
  async acquire(claim: LockClaim): Promise<LockRecord> {
    const record = (await this.read()) ?? (await this.#create(claim));
    if (record.clusterId !== claim.clusterId || record.by !== claim.by || record.id !== claim.id) {
      throw new NodeLockError(
        'nodelock-held',
        `locking the machine: bound to cluster ${record.clusterId} by ${record.by} ${record.id}`,
        { details: { clusterId: record.clusterId, by: record.by, id: record.id } },
      );
    }
    await this.mirrorToRegister();
    return record;
  }

  /**
   * Makes the register say what the file says; a machine that is unlocked is left as it is. Idempotent: reads before it
   * extends, since a second extension would give a value that no verifier expects. One at a time.
   */
  mirrorToRegister(): Promise<void> {
    const turn = this.#mirroring.then(() => this.#mirror());
    this.#mirroring = turn.catch(() => undefined);
    return turn;
  }

  /** The record of this claim, or of whoever was faster. */
  async #create(claim: LockClaim): Promise<LockRecord> {
    const { files, path, nowMs, register } = this.#options;
    const baseline = bootBaseline(await register?.read(), claim);
    const counted = await register?.counter?.start();
    const record: LockRecord = {
      version: VERSION,
      ...claim,
      lockedAtMs: nowMs(),
      ...(baseline === undefined ? {} : { registerBaseline: hexOf(baseline) }),
      ...(counted === undefined ? {} : { counterBaseline: counted.toString() }),
    };
    if (await files.createExclusive(path, `${JSON.stringify(record)}\n`)) return record;
    const held = await this.read();
    if (held !== undefined) return held;
    throw new NodeLockError('nodelock-damaged', `locking the machine: ${path} is there and cannot be read`);
  }

  async #mirror(): Promise<void> {
    const { register } = this.#options;
    const record = register === undefined ? undefined : await this.read();
    if (register === undefined || record?.registerBaseline === undefined) return;
    const baseline = Buffer.from(record.registerBaseline, 'hex');
    const locked = lockedValue(baseline, record.clusterId);
    const before = await register.read();
    const isShown = Buffer.compare(before, locked) === 0;
    if (!isShown && Buffer.compare(before, baseline) !== 0) throw foreign(before, [baseline, locked]);
    await count(register, record); // before the register shows it: nobody sees a lock that was not counted
    if (isShown) return;
    await register.extend(record.clusterId);
    const after = await register.read();
    if (Buffer.compare(after, locked) !== 0) throw foreign(after, [locked]);
  }
}

/**
 * What the boot left in the register. A machine that was made fresh, was not restarted since and joins the same cluster
 * again shows its lock already: extended once more it would show what nobody expects, in this boot and after it.
 */
function bootBaseline(now: Uint8Array | undefined, { clusterId }: LockClaim): Uint8Array | undefined {
  if (now === undefined || Buffer.compare(now, lockedValue(POWER_ON, clusterId)) !== 0) return now;
  return POWER_ON;
}

/** Once per lock: a counter that is past its baseline has been counted up for it. */
async function count({ counter }: LockRegister, { counterBaseline }: LockRecord): Promise<void> {
  if (counter === undefined || counterBaseline === undefined) return;
  if ((await counter.start()) === BigInt(counterBaseline)) await counter.increment();
}

function foreign(actual: Uint8Array, expected: readonly Uint8Array[]): NodeLockError {
  const wanted = expected.map(hexOf).join(' or ');
  return new NodeLockError(
    'nodelock-register-mismatch',
    `showing the lock in its register: it holds ${hexOf(actual)}, expected ${wanted}`,
    { details: { expected: wanted, actual: hexOf(actual) } },
  );
}

function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
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
  const { version, clusterId, by, id, lockedAtMs, registerBaseline, counterBaseline } = value;
  if (version !== VERSION) throw damaged(`version ${String(version)}, expected ${VERSION}`);
  if (typeof clusterId !== 'string' || !/^[0-9a-f]{32}$/.test(clusterId)) throw damaged('no cluster id');
  if (by !== 'init' && by !== 'join') throw damaged('neither init nor join');
  if (typeof id !== 'string' || id === '' || typeof lockedAtMs !== 'number')
    throw damaged('no id or no time');
  if (counterBaseline !== undefined && !isCount(counterBaseline)) throw damaged('no value of a counter');
  if (registerBaseline === undefined) return { version, clusterId, by, id, lockedAtMs };
  if (typeof registerBaseline !== 'string' || !/^[0-9a-f]{64}$/.test(registerBaseline))
    throw damaged('no register value');
  const counted = counterBaseline === undefined ? {} : { counterBaseline };
  return { version, clusterId, by, id, lockedAtMs, registerBaseline, ...counted };
}

function isCount(value: unknown): value is string {
  return typeof value === 'string' && /^\d{1,20}$/.test(value);
}
