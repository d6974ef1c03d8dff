import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

/** More than the agent and an operator beside it never ask at once. */
const MAX_CONNECTIONS = 8;

/** Says to everybody who connects what `render` says at that moment, and hangs up. */
export async function serveHealth(path: string, render: () => string): Promise<Server> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.resume();
    socket.end(render());
  });
  server.maxConnections = MAX_CONNECTIONS;
  server.listen(path);
  await once(server, 'listening');
  return server;
}
