import { createServer } from 'node:net';
import { MachinesError } from './errors.ts';

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
          ? new MachinesError('machines-busy', `locking ${what}: another process holds it`, { cause })
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
