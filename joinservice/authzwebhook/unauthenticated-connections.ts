import type { Socket } from 'node:net';

/**
 * Connections without a verified client certificate. Any process of this machine can open some: when there are too many, the
 * oldest is closed, so that the API server can always connect.
 */
export class UnauthenticatedConnections {
  readonly #max: number;
  /**
   * Connections by source port, oldest first. The port is unique because all connections are on the loopback.
   */
  readonly #waiting = new Map<number | undefined, Socket>();

  constructor(max: number) {
    this.#max = max;
  }

  /** The number of unauthenticated connections. */
  get size(): number {
    return this.#waiting.size;
  }

  /** Adds a new connection, and closes the oldest if there are too many. */
  add(socket: Socket): void {
    const port = socket.remotePort;
    this.#waiting.set(port, socket);
    socket.once('close', () => {
      if (this.#waiting.get(port) === socket) this.#waiting.delete(port);
    });
    if (this.#waiting.size <= this.#max) return;
    for (const [first, oldest] of this.#waiting) {
      this.#waiting.delete(first);
      oldest.destroy();
      return;
    }
  }

  /**
   * Stops counting a connection, because it is authenticated now. The socket is identified by its remote
   * port, so `socket` may be the TLS socket over the added one.
   */
  authenticated(socket: Pick<Socket, 'remotePort'>): void {
    this.#waiting.delete(socket.remotePort);
  }
}
