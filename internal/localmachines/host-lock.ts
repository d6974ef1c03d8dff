import { createServer } from 'node:net';
import type { Clock } from '../clock/index.ts';
import { LocalMachineError } from './errors.ts';

const POLL_MS = 250;

/**
 * A lock with one holder on this machine. It is an abstract unix socket (unix(7)): bound atomically,
 * without a file. The kernel frees it however the process of the holder ends. @throws LocalMachineError
 * `localmachines-locked` when another process holds it
 */
export async function acquireLock(what: string): Promise<AsyncDisposable> {
  const server = createServer((connection) => connection.destroy());
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause: NodeJS.ErrnoException) =>
      reject(
        cause.code === 'EADDRINUSE'
          ? new LocalMachineError('localmachines-locked', `locking ${what}: held by another process`, {
              cause,
            })
          : cause,
      ),
    );
    server.listen(`\0cluster-mini/${what}`, resolve);
  });
  server.unref();
  return {
    [Symbol.asyncDispose]: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

/** How long to wait for a lock. */
export interface LockWaitOptions {
  readonly clock: Clock;
  readonly limitMs: number;
  /** Called once when another process holds the lock. */
  readonly onWait: () => void;
  readonly signal: AbortSignal;
}

/**
 * Waits for a lock on shared data, whose holder is building the data that the caller needs. @throws
 * LocalMachineError `localmachines-locked` when the lock is not free in time
 */
export async function waitForLock(what: string, options: LockWaitOptions): Promise<AsyncDisposable> {
  const { clock, limitMs, onWait, signal } = options;
  const endMs = clock.monotonicMs() + limitMs;
  for (let tries = 0; ; tries++) {
    try {
      return await acquireLock(what);
    } catch (error) {
      if (!(error instanceof LocalMachineError) || clock.monotonicMs() >= endMs) throw error;
      if (tries === 0) onWait();
      await clock.sleep(POLL_MS, signal);
    }
  }
}
