import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';

/** Maximum number of bytes in transit: what a 1 Gbit/s link holds in 50 ms. */
const MOST_BYTES = 8 * 1024 * 1024;

/**
 * A proxy to a control plane that delays traffic or drops a response. The kernels of local machines cannot
 * delay packets, so this proxy listens on the host's address in the machines' network and forwards
 * connections.
 */
export class SlowConnection implements AsyncDisposable {
  /** Delay in each direction, ms. */
  delayMs = 0;
  /** Drop the connection when a response exceeds this number of bytes; undefined: never. */
  #cutAfter: number | undefined;
  /** Number of dropped connections. */
  cuts = 0;
  /** Bytes of the longest response that was forwarded completely. */
  longestAnswer = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(server: Server) {
    this.#server = server;
  }

  static async open(
    host: string,
    far: { readonly host: string; readonly port: number },
  ): Promise<SlowConnection> {
    const server = createServer();
    server.listen({ host, port: 0 });
    await once(server, 'listening');
    const wire = new SlowConnection(server);
    server.on('connection', (near) => wire.#plug(near, connect(far)));
    return wire;
  }

  /** "IP:PORT" */
  get endpoint(): string {
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('the proxy has no TCP address');
    return `${address.address}:${address.port}`;
  }

  /**
   * Drops the next response that is longer than this, together with its connection. Works once. A response is
   * all data that the server sends between two writes of the client.
   */
  loseAnswerAfter(bytes: number): void {
    this.#cutAfter = bytes;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #plug(near: Socket, far: Socket): void {
    for (const socket of [near, far]) {
      this.#sockets.add(socket);
      socket.on('error', () => undefined);
      socket.once('close', () => {
        this.#sockets.delete(socket);
        near.destroy();
        far.destroy();
      });
    }
    let answered = 0;
    void this.#carry(near, far, () => {
      answered = 0;
      return false;
    });
    void this.#carry(far, near, (bytes) => this.#isLost((answered += bytes)));
  }

  /** Forwards data in order, each chunk after the same delay. Long data is not slowed down further. */
  async #carry(from: Socket, to: Socket, isLost: (bytes: number) => boolean): Promise<void> {
    let underWay = 0;
    let handedOver = Promise.resolve();
    const handOver = async (piece: Buffer, before: Promise<void>, atMs: number): Promise<void> => {
      await before;
      const leftMs = atMs - performance.now();
      if (leftMs > 0) await delay(leftMs);
      if (!to.write(piece)) await once(to, 'drain');
      underWay -= piece.length;
    };
    try {
      for await (const piece of from as AsyncIterable<Buffer>) {
        if (isLost(piece.length)) {
          from.resetAndDestroy();
          to.resetAndDestroy();
          return;
        }
        underWay += piece.length;
        handedOver = handOver(piece, handedOver, performance.now() + this.delayMs);
        // A rejection must be handled here: if this is the last chunk, nothing else waits for it in time.
        handedOver.catch(() => to.destroy());
        if (underWay > MOST_BYTES) await handedOver;
      }
      await handedOver;
      to.end();
    } catch {
      to.destroy(); // The other end has closed the connection.
    }
  }

  #isLost(answered: number): boolean {
    if (this.#cutAfter === undefined || answered <= this.#cutAfter) {
      this.longestAnswer = Math.max(this.longestAnswer, answered);
      return false;
    }
    this.#cutAfter = undefined;
    this.cuts += 1;
    return true;
  }
}
