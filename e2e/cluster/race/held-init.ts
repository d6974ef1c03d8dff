import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** A threshold: each request of the CLI before the init is shorter, the init request is longer. */
const INIT_BYTES = 4096;

/**
 * A TCP proxy between workstation and machine that delays the init request until the story releases it. Short requests and
 * all responses pass. The first long request is the init: the proxy passes its beginning and holds the rest back.
 */
export class HeldInit implements AsyncDisposable {
  readonly endpoint: string;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #reached = Promise.withResolvers<void>();
  #held: { readonly far: Socket; readonly bytes: Buffer[] } | undefined;
  #open = false;

  private constructor(server: Server, endpoint: string) {
    this.#server = server;
    this.endpoint = endpoint;
  }

  static async open(
    host: string,
    machine: { readonly host: string; readonly port: number },
  ): Promise<HeldInit> {
    const server = createServer();
    server.listen({ host, port: 0 });
    await once(server, 'listening');
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('the proxy has no TCP address');
    const line = new HeldInit(server, `${host}:${address.port}`);
    server.on('connection', (near) => line.#join(near, connect(machine)));
    return line;
  }

  /** Resolves when the proxy holds an init request. */
  get held(): Promise<void> {
    return this.#reached.promise;
  }

  /** Forwards the held bytes, and every byte from now on. */
  release(): void {
    this.#open = true;
    for (const bytes of this.#held?.bytes ?? []) this.#held?.far.write(bytes);
    this.#held = undefined;
  }

  /** Holds the next init request. */
  hold(): void {
    this.release();
    this.#open = false;
    this.#reached = Promise.withResolvers();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #join(near: Socket, far: Socket): void {
    let inOneGo = 0;
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(socket.setNoDelay(true));
      socket.on('error', () => other.destroy());
      socket.on('end', () => other.end());
      socket.once('close', () => this.#sockets.delete(socket));
    }
    far.on('data', (bytes: Buffer) => {
      inOneGo = 0;
      near.write(bytes);
    });
    near.on('data', (bytes: Buffer) => {
      inOneGo += bytes.length;
      if (this.#open || (this.#held === undefined && inOneGo < INIT_BYTES)) far.write(bytes);
      else (this.#held ??= this.#holdBack(far)).bytes.push(bytes);
    });
  }

  #holdBack(far: Socket): { readonly far: Socket; readonly bytes: Buffer[] } {
    this.#reached.resolve();
    return { far, bytes: [] };
  }
}
