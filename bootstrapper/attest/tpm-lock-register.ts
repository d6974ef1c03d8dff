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
    counter: {
      start: () => startCounter(tpm, agentSignal),
      increment: () => tpm.use(agentSignal, incrementLockCounter),
    },
  };
}

/**
 * Starts the counter. Returns undefined if the owner hierarchy has a password: then there is no counter, and
 * the evidence contains none.
 */
async function startCounter(tpm: Tpm, agentSignal: AbortSignal): Promise<bigint | undefined> {
  try {
    return await tpm.use(agentSignal, async (connection, signal) => {
      await startLockCounter(connection, signal);
      return readLockCounter(connection, signal);
    });
  } catch (error) {
    if (error instanceof TpmError && error.code === 'tpm-auth-failed') return undefined;
    throw error;
  }
}
