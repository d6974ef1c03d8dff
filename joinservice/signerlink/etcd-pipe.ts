import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { splitEndpoint } from '../../internal/endpoint/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { Logger } from '../../internal/logging/index.ts';

/** The signer has one etcd client; a few more for reconnects that overlap. */
const MAX_CONNECTIONS = 8;

/**
 * Forwards bytes between a Unix socket and the local etcd member, for the signer, which has no network. The signer
 * uses TLS with its own certificate through this proxy, so this process can delay the data, but can neither read nor
 * change the data. Runs until the signal fires.
 */
export async function runEtcdPipe(
  options: {
    readonly path: string;
    /** "host:port" */
    readonly endpoint: string;
    readonly files: FilePort;
    readonly log: Logger;
  },
  signal: AbortSignal,
): Promise<void> {
  const { path, endpoint, files, log } = options;
  const { host, port } = splitEndpoint(endpoint);
  const open = new Set<Socket>();
  const server = createServer((local) => {
    const remote = connect({ host, port, noDelay: true });
    for (const socket of [local, remote]) {
      open.add(socket);
      socket.once('close', () => open.delete(socket));
    }
    // Either end may break at any time; the etcd client of the signer reconnects.
    Promise.all([pipeline(local, remote), pipeline(remote, local)]).catch((error: unknown) => {
      log.debug('connection of the signer to etcd ended', { error });
      local.destroy();
      remote.destroy();
    });
  });
  server.maxConnections = MAX_CONNECTIONS;
  await files.remove(path); // a killed process may have left the socket
  server.listen({ path });
  await once(server, 'listening');
  try {
    await untilAborted(signal);
  } finally {
    for (const socket of open) socket.destroy();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  }
}

function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const onAbort = (): void => reject(signal.reason as Error);
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
  });
}
