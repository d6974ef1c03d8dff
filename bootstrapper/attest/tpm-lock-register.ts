import { lockDigest } from '../../internal/attestation/index.ts';
import { extendPcr, readPcrs, TpmError, type Tpm } from '../../internal/tpm/index.ts';
import type { LockRegister } from '../nodelock/index.ts';

/** The PCR (SHA-256 bank) that carries the node lock. The TPM's own time limits bound each call. */
export class TpmLockRegister implements LockRegister {
  readonly #tpm: Tpm;
  readonly #pcr: number;
  readonly #signal: AbortSignal;

  /** `signal`: the life of the agent. A lock that is being taken is not called off with the connection that asked. */
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

  extend(clusterId: string): Promise<void> {
    const extension = { pcr: this.#pcr, hash: 'sha256', digest: lockDigest(clusterId) } as const;
    return this.#tpm.use(this.#signal, (connection, signal) => extendPcr(connection, extension, signal));
  }
}
