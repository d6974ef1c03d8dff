import { TpmError, type NvCounter, type Tpm } from '../../internal/tpm/index.ts';

/** A counter of this machine that never goes back, whatever happens to the disk. */
export interface MachineCounter {
  /** The value; undefined if the counter was never used. */
  read(): Promise<bigint | undefined>;
  /**
   * Creates the counter if it does not exist, and reads it. Returns undefined if the owner hierarchy of the TPM has a password: then
   * the machine has no counter.
   */
  start(): Promise<bigint | undefined>;
  increment(): Promise<void>;
}

/**
 * A counter in the TPM of this machine.
 * @param options `signal` is that of the agent: an interrupted connection of the caller must not abort a step
 */
export function createTpmCounter(options: {
  readonly tpm: Tpm;
  readonly counter: NvCounter;
  readonly signal: AbortSignal;
}): MachineCounter {
  const { tpm, counter, signal: agentSignal } = options;
  return {
    read: () => tpm.use(agentSignal, (connection, signal) => counter.read(connection, signal)),
    start: async () => {
      try {
        return await tpm.use(agentSignal, async (connection, signal) => {
          await counter.start(connection, signal);
          return counter.read(connection, signal);
        });
      } catch (error) {
        if (error instanceof TpmError && error.code === 'tpm-auth-failed') return undefined;
        throw error;
      }
    },
    increment: () => tpm.use(agentSignal, (connection, signal) => counter.increment(connection, signal)),
  };
}
