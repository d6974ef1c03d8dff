import { Backoff, type Clock } from '../../internal/clock/index.ts';
import { describeError } from '../../internal/errors/index.ts';
import { AtlsError } from '../../internal/atls/index.ts';
import { RpcError } from '../../internal/rpc/index.ts';
import { ClusterError } from './errors.ts';

/** Short at most: a person waits, and a connection attempt per second costs a machine that boots nothing. */
const PAUSES = { firstMs: 250, factor: 1.5, longestMs: 1_000 };
const MAX_FAILURES = 5;
/** A machine that reboots, a workstation that wakes up: longer than any of them needs. */
const PATIENCE_MS = 15 * 60 * 1000;

export interface RetryConnectionOptions {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** "following the init on 192.0.2.11:9000". */
  readonly doing: string;
  /** How long without any sign of life; a try that made progress calls `alive`. */
  readonly patienceMs?: number;
  /** Each time the connection broke, with its cause in words. */
  readonly onLost: (why: string) => void;
}

/**
 * Repeats `attempt` while what fails is the connection. What the peer says, refusals included, is final.
 * @throws ClusterError `cluster-unreachable` with the last cause when nothing was heard for too long
 */
export async function retryConnection<T>(
  options: RetryConnectionOptions,
  attempt: (alive: () => void) => Promise<T>,
): Promise<T> {
  const { clock, signal, doing, patienceMs = PATIENCE_MS, onLost } = options;
  let heardMs = clock.monotonicMs();
  const backoff = new Backoff(PAUSES);
  let failures = 0;
  const alive = (): void => {
    heardMs = clock.monotonicMs();
    backoff.reset();
    failures = 0;
  };
  for (;;) {
    try {
      return await attempt(alive);
    } catch (error) {
      signal.throwIfAborted();
      if (!isConnectionLoss(error)) throw error;
      // A peer that can be reached and fails without a word gets a few tries only.
      if (error instanceof RpcError && error.code === 'rpc-failed' && ++failures > MAX_FAILURES) throw error;
      const pauseMs = backoff.nextMs();
      const silentMs = clock.monotonicMs() - heardMs;
      if (silentMs + pauseMs > patienceMs) {
        const seconds = Math.round(silentMs / 1000);
        throw new ClusterError('cluster-unreachable', `${doing}: nothing heard for ${seconds} s`, {
          cause: error,
        });
      }
      onLost(describeError(error));
      await clock.sleep(pauseMs, signal);
    }
  }
}

/** Broken, refused, silent; not: refused by word, another machine, another protocol. */
export function isConnectionLoss(error: unknown): boolean {
  return (error instanceof RpcError || error instanceof AtlsError) && error.retryable;
}
