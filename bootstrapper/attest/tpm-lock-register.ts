import { lockDigest } from '../../internal/attestation/index.ts';
import { extendPcr, lockCounter, readPcrs, TpmError, type Tpm } from '../../internal/tpm/index.ts';
import type { LockCounter, LockRegister } from '../nodelock/index.ts';
import { createTpmCounter } from './tpm-counter.ts';

/**
 * The PCR (SHA-256 bank) that shows the state of the node lock, and the NV counter of locks. The TPM port
 * limits the duration of each call.
 * @param options `signal` is that of the agent: an interrupted connection of the caller must not abort a lock
 * in progress
 */
export function createTpmLockRegister(options: {
  readonly tpm: Tpm;
  readonly pcr: number;
  readonly signal: AbortSignal;
}): LockRegister & { readonly counter: LockCounter } {
  const { tpm, pcr, signal: agentSignal } = options;
  return {
    read: () =>
      tpm.use(agentSignal, async (connection, signal) => {
        const values = await readPcrs(connection, { hash: 'sha256', pcrs: [pcr] }, signal);
        const value = values.get(pcr);
        if (value === undefined) throw new TpmError('tpm-malformed', `reading PCR ${pcr}: no value`);
        return value;
      }),
    extend: (clusterId) => {
      const extension = { pcr, hash: 'sha256', digest: lockDigest(clusterId) } as const;
      return tpm.use(agentSignal, (connection, signal) => extendPcr(connection, extension, signal));
    },
    counter: createTpmCounter({ tpm, counter: lockCounter, signal: agentSignal }),
  };
}
