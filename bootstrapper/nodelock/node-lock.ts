import { lockedValue } from '../../internal/attestation/index.ts';
import { readText, type FilePort } from '../../internal/file/index.ts';
import { NodeLockError } from './errors.ts';

const MAX_BYTES = 16 * 1024;
const VERSION = 1;
/** Value of a PCR that nothing has extended since power-on (TPM 2.0 Library, Part 1, 17). */
const POWER_ON = new Uint8Array(32);

/**
 * The cluster that a machine is locked to, and the init or join that locked it. The same claim may be
 * repeated after a crash.
 */
export interface LockClaim {
  /** 16 bytes in lower-case hex. */
  readonly clusterId: string;
  readonly by: 'init' | 'join';
  /** The init id, or the id of the join. */
  readonly id: string;
}

/** The content of the lock file. */
export interface LockRecord extends LockClaim {
  readonly version: number;
  readonly lockedAtMs: number;
  /** Value of the lock register before this machine was locked, in hex; absent on a machine without a TPM. */
  readonly registerBaseline?: string;
  /**
   * Value of the lock counter before this machine was locked, in decimal; absent on a machine without a
   * counter.
   */
  readonly counterBaseline?: string;
}

/**
 * Counts how often this machine was locked to a cluster. The count never decreases, whatever happens to the
 * disk.
 */
export interface LockCounter {
  /**
   * Creates the counter if necessary and reads it; undefined on a machine that cannot have a counter.
   * Idempotent.
   */
  start(): Promise<bigint | undefined>;
  increment(): Promise<void>;
}

/** The PCR in which verifiers see the lock: 32 bytes that can be extended but not set. */
export interface LockRegister {
  read(): Promise<Uint8Array>;
  extend(clusterId: string): Promise<void>;
  readonly counter?: LockCounter;
}

/** Options of `NodeLock`. */
export interface NodeLockOptions {
  readonly files: FilePort;
  readonly path: string;
  readonly nowMs: () => number;
  /** Absent on a machine without a TPM, whose lock is only the file. */
  readonly register?: LockRegister;
}

/**
 * The one-way lock of a machine: once locked, the machine is never unlocked. The file is created exclusively
 * and synced. So exactly one of an init and a join at the same instant gets the lock, and a restart finds
 * which one. Counter and PCR follow the file, in this order: read both, create the file, increment the
 * counter, extend the PCR. After a crash in between, and after each reboot (which resets the PCR),
 * `mirrorToRegister` completes these steps. The agent must have called it successfully before the agent
 * quotes the TPM.
 */
export class NodeLock {
  readonly #options: NodeLockOptions;
  #mirroring: Promise<void> = Promise.resolve();

  constructor(options: NodeLockOptions) {
    this.#options = options;
  }

  /** The lock; undefined while the machine is unlocked. @throws NodeLockError `nodelock-damaged` */
  async read(): Promise<LockRecord | undefined> {
    const { files, path } = this.#options;
    const text = await readText(files, path, MAX_BYTES);
    return text === undefined ? undefined : parseLockRecord(text, path);
  }

  /**
   * Locks the machine, or finds that the same claim has locked it before.
   * @throws NodeLockError `nodelock-held` when another claim holds the lock
   */
  async acquire(claim: LockClaim): Promise<LockRecord> {
    const record = (await this.read()) ?? (await this.#create(claim));
    if (record.clusterId !== claim.clusterId || record.by !== claim.by || record.id !== claim.id) {
      throw new NodeLockError(
        'nodelock-held',
        `machine already locked to cluster ${record.clusterId} by ${record.by} ${record.id}`,
        { details: { clusterId: record.clusterId, by: record.by, id: record.id } },
      );
    }
    await this.mirrorToRegister();
    return record;
  }

  /**
   * Extends the register so that it shows the lock in the file; does nothing on an unlocked machine. Reads the register
   * first, because a second extension would give a value that no verifier expects. Concurrent calls run one after the other.
   * @throws NodeLockError `nodelock-register-mismatch`
   */
  mirrorToRegister(): Promise<void> {
    const mirrored = this.#mirroring.then(() => this.#mirror());
    this.#mirroring = mirrored.catch(() => undefined);
    return mirrored;
  }

  /** Creates the lock file. Returns the record of this claim, or of another claim that was faster. */
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
    throw new NodeLockError('nodelock-damaged', `${path} exists but cannot be read`);
  }

  async #mirror(): Promise<void> {
    const { register } = this.#options;
    const record = register === undefined ? undefined : await this.read();
    if (register === undefined || record?.registerBaseline === undefined) return;
    const baseline = Buffer.from(record.registerBaseline, 'hex');
    const locked = lockedValue(baseline, record.clusterId);
    const before = await register.read();
    const isShown = Buffer.compare(before, locked) === 0;
    if (!isShown && Buffer.compare(before, baseline) !== 0)
      throw registerMismatch(before, [baseline, locked]);
    await count(register, record); // counted first: verifiers must not see an uncounted lock
    if (isShown) return;
    await register.extend(record.clusterId);
    const after = await register.read();
    if (Buffer.compare(after, locked) !== 0) throw registerMismatch(after, [locked]);
  }
}

/**
 * The value that the boot left in the PCR. A machine that was reset, has not rebooted since and joins the
 * same cluster again still shows its earlier lock there. Extending the PCR once more would give a value that
 * no verifier expects.
 */
function bootBaseline(now: Uint8Array | undefined, { clusterId }: LockClaim): Uint8Array | undefined {
  if (now === undefined || Buffer.compare(now, lockedValue(POWER_ON, clusterId)) !== 0) return now;
  return POWER_ON;
}

/**
 * Increments the counter once each time the machine is locked. If the counter is above its baseline, this lock has been
 * counted already.
 */
async function count({ counter }: LockRegister, { counterBaseline }: LockRecord): Promise<void> {
  if (counter === undefined || counterBaseline === undefined) return;
  if ((await counter.start()) === BigInt(counterBaseline)) await counter.increment();
}

function registerMismatch(actual: Uint8Array, expected: readonly Uint8Array[]): NodeLockError {
  const wanted = expected.map(hexOf).join(' or ');
  return new NodeLockError(
    'nodelock-register-mismatch',
    `lock register has value ${hexOf(actual)}, expected ${wanted}`,
    { details: { expected: wanted, actual: hexOf(actual) } },
  );
}

function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}

function parseLockRecord(text: string, path: string): LockRecord {
  const damaged = (why: string, cause?: unknown): NodeLockError =>
    new NodeLockError('nodelock-damaged', `node lock ${path}: ${why}`, {
      cause,
      details: { path },
    });
  let value: Partial<LockRecord> | null;
  try {
    value = JSON.parse(text) as Partial<LockRecord> | null;
  } catch (error) {
    throw damaged('not JSON', error);
  }
  if (typeof value !== 'object' || value === null) throw damaged('not a JSON object');
  const { version, clusterId, by, id, lockedAtMs, registerBaseline, counterBaseline } = value;
  if (version !== VERSION) throw damaged(`format version ${String(version)}, expected ${VERSION}`);
  if (typeof clusterId !== 'string' || !/^[0-9a-f]{32}$/.test(clusterId)) throw damaged('invalid cluster id');
  if (by !== 'init' && by !== 'join') throw damaged('invalid "by": neither init nor join');
  if (typeof id !== 'string' || id === '' || typeof lockedAtMs !== 'number')
    throw damaged('invalid id or time');
  if (counterBaseline !== undefined && !isCount(counterBaseline)) throw damaged('invalid counter value');
  if (registerBaseline === undefined) return { version, clusterId, by, id, lockedAtMs };
  if (typeof registerBaseline !== 'string' || !/^[0-9a-f]{64}$/.test(registerBaseline))
    throw damaged('invalid register value');
  const counted = counterBaseline === undefined ? {} : { counterBaseline };
  return { version, clusterId, by, id, lockedAtMs, registerBaseline, ...counted };
}

function isCount(value: unknown): value is string {
  return typeof value === 'string' && /^\d{1,20}$/.test(value);
}
