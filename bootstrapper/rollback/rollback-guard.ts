import { HOUR_MS, MINUTE_MS, type Clock } from '../../internal/clock/index.ts';
import { isAbort } from '../../internal/errors/index.ts';
import { RepeatedProblem, type Logger } from '../../internal/logging/index.ts';
import { NvCounter, TpmError } from '../../internal/tpm/index.ts';
import type { MachineCounter } from '../attest/index.ts';
import { MembershipError, type ChecksummedFile } from '../membership/index.ts';
import { readSerials, type FloorFiles, type Serials } from './read-serials.ts';

/** The latest time of a Date: no document is signed after it. */
export const NEVER_MS = 8_640_000_000_000_000;
const SIGNER = 'signer/';

/** The NV counter that says which record of accepted documents is the current one. */
export const FLOOR_COUNTER = new NvCounter(0x0180636e, 'the counter of accepted owner documents');

/** The content of the file that the counter protects. */
export interface FloorRecord {
  /** Value of the counter that this record belongs to, in decimal; absent until the counter exists. */
  readonly count?: string;
  readonly serials: Serials;
  /** When this machine last found an old copy of its disk. */
  readonly signedAfterMs?: number;
}

/** Ports (injected dependencies) of the guard. */
export interface RollbackGuardPorts extends FloorFiles {
  readonly record: Pick<ChecksummedFile<FloorRecord>, 'load' | 'save'>;
  /** Absent on a machine without a TPM, which cannot find out that its disk is an old copy. */
  readonly counter: MachineCounter | undefined;
  readonly isMember: () => Promise<boolean>;
  readonly clock: Pick<Clock, 'nowMs' | 'monotonicMs'>;
  readonly log: Logger;
  /** Fires when the agent stops. */
  readonly signal: AbortSignal;
}

/**
 * Binds the serials of accepted owner documents to a counter of the TPM. A change writes the record for the next value and then
 * increments the counter; a record that is one value ahead was interrupted in between, and the next start completes it. A record
 * below the counter, a missing or damaged one, and files with lower serials than in the record show an old copy of the disk. From
 * then on, documents signed before that moment give nobody anything new.
 */
export class RollbackGuard {
  readonly #ports: RollbackGuardPorts;
  readonly #problem = new RepeatedProblem();
  /** The current record, once it was compared with the counter. */
  #record: FloorRecord | undefined;
  /** Whether the record on disk may be another one, because a change was interrupted or made without the counter. */
  #isOutdated = false;
  /** Whether this machine belonged to a cluster when the guard first looked. */
  #wasMember: boolean | undefined;
  /** When this run found an old copy of the disk, on the monotonic clock. */
  #foundMs: number | undefined;
  #queue: Promise<void> = Promise.resolve();

  constructor(ports: RollbackGuardPorts) {
    this.#ports = ports;
  }

  /**
   * Documents signed before this time count for nothing new; undefined while the disk is the newest one. While the TPM does not
   * respond, nobody knows, and this is the latest time.
   */
  get signedAfterMs(): number | undefined {
    if (this.#ports.counter === undefined) return undefined;
    return this.#record === undefined ? NEVER_MS : this.#record.signedAfterMs;
  }

  /** When this machine found that its disk is an old copy; undefined while it is the newest one, or while nobody knows. */
  get foundMs(): number | undefined {
    return this.#record?.signedAfterMs;
  }

  /** Compares the serials on disk with the record and the counter, and records higher ones. A failure is logged; the next call tries again. */
  check(): Promise<void> {
    const { counter, log, signal } = this.#ports;
    if (counter === undefined) return Promise.resolve();
    return this.#withLock(async () => {
      try {
        await this.#check(counter);
        this.#problem.end();
      } catch (error) {
        if (!isAbort(error, signal) && this.#problem.isNew(error))
          log.warn('accepted owner documents not compared with the TPM, retrying', { error });
      }
    });
  }

  /**
   * Removes the files of the signer, so that their absence later does not look like an old disk. Needs no TPM: no document that this
   * disk has accepted becomes older, so the record keeps its value of the counter.
   */
  forgetSigner(remove: () => Promise<void>): Promise<void> {
    return this.#withLock(async () => {
      const record = await this.#load();
      const serials = typeof record === 'object' ? Object.entries(record.serials) : [];
      const others = serials.filter(([name]) => !name.startsWith(SIGNER));
      if (typeof record === 'object' && others.length < serials.length) {
        this.#isOutdated = true;
        await this.#ports.record.save({ ...record, serials: Object.fromEntries(others) });
      }
      await remove();
    });
  }

  #withLock(work: () => Promise<void>): Promise<void> {
    const done = this.#queue.then(work);
    this.#queue = done.catch(() => undefined);
    return done;
  }

  async #check(counter: MachineCounter): Promise<void> {
    this.#wasMember ??= await this.#ports.isMember();
    const present = await readSerials(this.#ports);
    if (this.#record === undefined || this.#isOutdated) this.#record = await this.#open(counter, present);
    this.#isOutdated = false;
    let record = this.#record;
    if (isBelow(present, record.serials)) record = await this.#distrust(counter, present);
    else if (isBelow(record.serials, present))
      record = await this.#write(counter, { ...record, serials: present });
    record = await this.#followClock(counter, record);
    if (record.signedAfterMs !== undefined) await this.#saveTime(record.signedAfterMs);
  }

  /** The record on disk after it was compared with the counter. */
  async #open(counter: MachineCounter, present: Serials): Promise<FloorRecord> {
    const record = await this.#load();
    const value = await counter.read();
    if (record === undefined) {
      if (value === undefined) return { serials: {} };
      // A machine that was reset has no record either, and belongs to no cluster.
      if (this.#wasMember !== true) return this.#write(counter, { serials: present });
    } else if (record !== 'damaged') {
      if (record.count === undefined) return this.#write(counter, record);
      const count = BigInt(record.count);
      if (value === count) return record;
      if (value === count - 1n) {
        await counter.increment();
        return record;
      }
    }
    return this.#distrust(counter, present);
  }

  /** Accepts the serials on this old disk as they are, and from now on only what an owner signs after this moment. */
  async #distrust(counter: MachineCounter, present: Serials): Promise<FloorRecord> {
    const { log, clock } = this.#ports;
    const signedAfterMs = Math.round(clock.nowMs());
    this.#foundMs = clock.monotonicMs();
    log.error('the disk of this machine is an old copy: an owner has to run `cluster sign`', {
      code: 'owner-document-before-rollback',
    });
    return this.#write(counter, { serials: present, signedAfterMs });
  }

  /**
   * Corrects the time at which this run of the agent found an old copy, after the clock was set: many clocks are wrong until they are
   * synchronized. With a time in the future, nothing that an owner signs would count; with one too early, old documents would.
   */
  async #followClock(counter: MachineCounter, record: FloorRecord): Promise<FloorRecord> {
    const { clock } = this.#ports;
    if (record.signedAfterMs === undefined || this.#foundMs === undefined) return record;
    const agoMs = clock.monotonicMs() - this.#foundMs;
    const signedAfterMs = Math.round(clock.nowMs() - agoMs);
    const isRight = Math.abs(signedAfterMs - record.signedAfterMs) < MINUTE_MS;
    return isRight || agoMs > HOUR_MS ? record : this.#write(counter, { ...record, signedAfterMs });
  }

  /** Tells the parts of the agent that verify documents. */
  async #saveTime(signedAfterMs: number): Promise<void> {
    const { keys, configurationFloors } = this.#ports;
    await keys.saveFloors({ signedAfterMs });
    const floors = await configurationFloors.load();
    if (floors?.signedAfterMs !== signedAfterMs) await configurationFloors.save({ ...floors, signedAfterMs });
  }

  async #write(counter: MachineCounter, { count: before, ...content }: FloorRecord): Promise<FloorRecord> {
    const { record } = this.#ports;
    this.#isOutdated = true;
    // Without this, a crash after the creation of the counter would look like a deleted record.
    if (before === undefined) await record.save(content);
    const value = await this.#start(counter);
    let written: FloorRecord = content;
    if (value !== undefined) {
      written = { ...content, count: (value + 1n).toString() };
      await record.save(written);
      await counter.increment();
    }
    this.#isOutdated = false;
    return (this.#record = written);
  }

  /** Creates the counter if it does not exist, and reads it; undefined if the TPM refuses to create it, for example for lack of space. */
  async #start(counter: MachineCounter): Promise<bigint | undefined> {
    try {
      return await counter.start();
    } catch (error) {
      const isRefused = error instanceof TpmError && error.code === 'tpm-refused';
      if (!isRefused || (await counter.read()) !== undefined) throw error;
      this.#ports.log.warn('no counter in the TPM: an old copy of the disk is not found', { error });
      return undefined;
    }
  }

  async #load(): Promise<FloorRecord | 'damaged' | undefined> {
    try {
      return await this.#ports.record.load();
    } catch (error) {
      if (error instanceof MembershipError) return 'damaged';
      throw error;
    }
  }
}

/** Whether any serial is lower than in `than`, or missing. */
function isBelow(serials: Serials, than: Serials): boolean {
  return Object.entries(than).some(([name, serial]) => (serials[name] ?? 0) < serial);
}
