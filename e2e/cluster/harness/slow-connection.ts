import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';

/** On its way at the same time: what 50 ms hold of a gigabit. */
const MOST_BYTES = 8 * 1024 * 1024;

/**
 * A way to a control plane that is slow, or that loses an answer. The kernels of local machines cannot delay packets, so
 * this one takes connections on the host's address in the machines' network and passes them on.
 */
export class SlowConnection implements AsyncDisposable {
  /** Each way, ms. */
  delayMs = 0;
  /** Bytes of an answer after which everything is cut; undefined: never. */
  #cutAfter: number | undefined;
  /** How often it was cut. */
  cuts = 0;
  /** Bytes of the longest answer that came through whole. */
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
    if (address === null || typeof address === 'string') throw new Error('a wire without an end');
    return `${address.address}:${address.port}`;
  }

  /**
   * The next answer that is longer than so many bytes is lost, and its connection with it. Once. An answer is what comes
   * on one connection between two words of who asks.
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

  /** In order, and each piece as late as the last one: what is long takes no longer for that. */
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
        handedOver.catch(() => to.destroy()); // also where nothing comes any more
        if (underWay > MOST_BYTES) await handedOver;
      }
      await handedOver;
      to.end();
    } catch {
      to.destroy(); // the other end has gone
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
