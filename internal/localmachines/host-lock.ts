import { createServer } from 'node:net';
import type { Clock } from '../clock/index.ts';
import { LocalMachineError } from './errors.ts';

const POLL_MS = 250;

/**
 * One holder at a time on this machine, for as long as its process lives: an abstract unix socket
 * (unix(7)) is taken atomically, leaves no file, and the kernel frees it however the holder ends.
 */
export async function acquireLock(what: string): Promise<AsyncDisposable> {
  const server = createServer((connection) => connection.destroy());
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause: NodeJS.ErrnoException) =>
      reject(
        cause.code === 'EADDRINUSE'
          ? new LocalMachineError('localmachines-locked', `locking ${what}: another process holds it`, {
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

export interface LockWaitOptions {
  readonly clock: Clock;
  readonly limitMs: number;
  /** Told once, when somebody else is at it. */
  readonly onWait: () => void;
  readonly signal: AbortSignal;
}

/**
 * The same for what is shared: who holds it makes the very thing that is wanted here, so it is waited for.
 * @throws MachinesError `localmachines-locked` when the other one has not let go in time
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
