import type { Socket } from 'node:net';

/**
 * Connections that have not proved who they are. Any process of this machine can open some and say nothing: when there are
 * too many, the one that has been silent for longest goes, and nobody who does prove itself is kept out.
 */
export class UnauthenticatedConnections {
  readonly #max: number;
  /** By the port they came from, oldest first: all are on the loopback, so no two have the same. */
  readonly #waiting = new Map<number | undefined, Socket>();

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#waiting.size;
  }

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

  /** It is none any more; `socket` may be what was made of the one that came in. */
  authenticated(socket: Pick<Socket, 'remotePort'>): void {
    this.#waiting.delete(socket.remotePort);
  }
}
