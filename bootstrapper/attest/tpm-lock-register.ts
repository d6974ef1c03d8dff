import { lockDigest } from '../../internal/attestation/index.ts';
import {
  extendPcr,
  incrementLockCounter,
  readLockCounter,
  readPcrs,
  startLockCounter,
  TpmError,
  type Tpm,
} from '../../internal/tpm/index.ts';
import type { LockCounter, LockRegister } from '../nodelock/index.ts';

/**
 * The PCR (SHA-256 bank) that shows the state of the node lock, and the NV counter of locks. The TPM port
 * limits the duration of each call.
 */
export class TpmLockRegister implements LockRegister {
  readonly #tpm: Tpm;
  readonly #pcr: number;
  readonly #signal: AbortSignal;
  readonly counter: LockCounter = {
    start: () => this.#startCounter(),
    increment: () => this.#tpm.use(this.#signal, incrementLockCounter),
  };

  /**
   * @param options `signal` is that of the agent: an interrupted connection of the caller must not abort a
   * lock in progress
   */
  constructor(options: { readonly tpm: Tpm; readonly pcr: number; readonly signal: AbortSignal }) {
    this.#tpm = options.tpm;
    this.#pcr = options.pcr;
    this.#signal = options.signal;
  }

  read(): Promise<Uint8Array> {
    return this.#tpm.use(this.#signal, async (connection, signal) => {
      const values = await readPcrs(connection, { hash: 'sha256', pcrs: [this.#pcr] }, signal);
      const value = values.get(this.#pcr);
      if (value === undefined) throw new TpmError('tpm-malformed', `reading PCR ${this.#pcr}: no value`);
      return value;
    });
  }

  /**
   * Starts the counter. Returns undefined if the owner hierarchy has a password: then there is no counter,
   * and the evidence contains none.
   */
  async #startCounter(): Promise<bigint | undefined> {
    try {
      return await this.#tpm.use(this.#signal, async (connection, signal) => {
        await startLockCounter(connection, signal);
        return readLockCounter(connection, signal);
      });
    } catch (error) {
      if (error instanceof TpmError && error.code === 'tpm-auth-failed') return undefined;
      throw error;
    }
  }

  extend(clusterId: string): Promise<void> {
    const extension = { pcr: this.#pcr, hash: 'sha256', digest: lockDigest(clusterId) } as const;
    return this.#tpm.use(this.#signal, (connection, signal) => extendPcr(connection, extension, signal));
  }
}
