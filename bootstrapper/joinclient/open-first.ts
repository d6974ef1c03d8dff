import { childSignal } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { describeError, findCoded } from '../../internal/errors/index.ts';
import { JoinClientError } from './errors.ts';

/** The next endpoint is tried when the previous one has failed, or after this time (like addresses in RFC 8305). */
const STAGGER_MS = 500;

/**
 * Opens the first endpoint that responds and cancels the others. Attempts start one after the other with a short pause,
 * because each one costs both ends a TPM quote.
 * @throws JoinClientError `joinclient-unreachable` with all errors; for a single endpoint, its own error
 */
export async function openFirst<T extends Disposable>(
  endpoints: readonly string[],
  open: (endpoint: string, signal: AbortSignal) => Promise<T>,
  options: {
    readonly clock: Clock;
    readonly onFailure: (endpoint: string, error: unknown) => void;
    readonly signal: AbortSignal;
  },
): Promise<T> {
  const { clock, onFailure, signal } = options;
  using race = childSignal(signal);
  const failures = new Map<string, unknown>();
  const won = Promise.withResolvers<T>();
  const attempts: Promise<void>[] = [];
  const attempt = async (endpoint: string): Promise<void> => {
    try {
      const opened = await open(endpoint, race.signal);
      if (race.signal.aborted) opened[Symbol.dispose]();
      else won.resolve(opened);
      race.abort();
    } catch (error) {
      if (race.signal.aborted) return;
      failures.set(endpoint, error);
      onFailure(endpoint, error);
    }
  };
  for (const endpoint of endpoints) {
    if (race.signal.aborted) break;
    const begun = attempt(endpoint);
    attempts.push(begun);
    await Promise.race([begun, clock.sleep(STAGGER_MS, race.signal).catch(() => undefined)]);
  }
  await Promise.race([won.promise, Promise.all(attempts)]);
  signal.throwIfAborted();
  if (failures.size < endpoints.length) return await won.promise;
  throw unreachable(failures);
}

function unreachable(failures: ReadonlyMap<string, unknown>): Error {
  const [first] = failures.values();
  if (failures.size === 1 && findCoded(first) !== undefined) return first as Error;
  const errors = [...failures].map(([endpoint, error]) => `${endpoint}: ${describeError(error)}`);
  return new JoinClientError('joinclient-unreachable', `no join service reached: ${errors.join('; ')}`);
}
