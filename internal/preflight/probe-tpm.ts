import type { Clock } from '../clock/index.ts';
import { describeError } from '../errors/index.ts';
import { deviceSource, getRandom, socketSource, Tpm } from '../tpm/index.ts';

/** The device or socket of a TPM. */
export interface TpmLocation {
  readonly kind: 'device' | 'socket';
  readonly path: string;
}

/**
 * Why the TPM is not usable (it cannot be opened or does not respond); undefined when it is usable. Changes
 * nothing in the TPM.
 */
export async function findTpmProblem(
  { kind, path }: TpmLocation,
  clock: Clock,
  signal: AbortSignal,
): Promise<string | undefined> {
  const source = kind === 'device' ? deviceSource(path) : socketSource({ path });
  await using tpm = new Tpm({ source, clock });
  return await findProblemOf(tpm, signal);
}

/** Like `findTpmProblem`, with a TPM that this program has opened already: a second client would flush what the first one has loaded. */
export async function findProblemOf(tpm: Pick<Tpm, 'use'>, signal: AbortSignal): Promise<string | undefined> {
  try {
    await tpm.use(signal, (connection, inside) => getRandom(connection, 8, inside));
    return undefined;
  } catch (error) {
    signal.throwIfAborted();
    return describeError(error);
  }
}
