import { Backoff, formatDuration, type Clock } from '../../internal/clock/index.ts';
import { describeError } from '../../internal/errors/index.ts';
import { AtlsError } from '../../internal/atls/index.ts';
import { RpcError } from '../../internal/rpc/index.ts';
import { ClusterError } from './errors.ts';

/** Short pauses: a person waits, and one connection attempt per second is cheap for the machine. */
const PAUSES = { firstMs: 250, factor: 1.5, longestMs: 1_000 };
const MAX_FAILURES = 5;
/** A shorter loss is reported without its time. */
const SHORT_MS = 1_000;
/** Longer than a machine needs to reboot or a workstation to resume from suspend. */
const PATIENCE_MS = 15 * 60 * 1000;

/** How long to retry, and what to report. */
export interface RetryConnectionOptions {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** What the attempt does, for error messages: "following the init on 192.0.2.11:9000". */
  readonly doing: string;
  /** Time limit without progress. An attempt that makes progress calls `alive`, which restarts the time limit. */
  readonly patienceMs?: number;
  /** Called each time the connection is lost, with the reason, how long it has been so, and when this ends. */
  readonly onLost: (why: string) => void;
}

/**
 * Repeats `attempt` while it fails because of the connection. Every response of the peer is final, even a
 * refusal.
 * @throws ClusterError `cluster-unreachable` with the last cause after `patienceMs` without progress
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
      // A peer that responds but gives no reason for its failure is called only a few times.
      if (error instanceof RpcError && error.code === 'rpc-failed' && ++failures > MAX_FAILURES) throw error;
      const pauseMs = backoff.nextMs();
      const silentMs = clock.monotonicMs() - heardMs;
      if (silentMs + pauseMs > patienceMs) {
        const text = `${doing}: no response for ${formatDuration(silentMs)}`;
        throw new ClusterError('cluster-unreachable', text, { cause: error });
      }
      const since = `no response for ${formatDuration(silentMs)} of at most ${formatDuration(patienceMs)}`;
      onLost(`${describeError(error)}${silentMs < SHORT_MS ? '' : `; ${since}`}`);
      await clock.sleep(pauseMs, signal);
    }
  }
}

/** Whether the connection broke, was refused or timed out; false if the peer refused the request, or is not the expected peer. */
export function isConnectionLoss(error: unknown): boolean {
  return (error instanceof RpcError || error instanceof AtlsError) && error.retryable;
}
