import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

/** Only the agent and an operator on this node connect to the socket. */
const MAX_CONNECTIONS = 8;

/** Sends the current result of `render` to every client that connects, and closes the connection. */
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
