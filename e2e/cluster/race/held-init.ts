import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** Longer than all that a CLI says in one go before its init, and shorter than that. */
const INIT_BYTES = 4096;

/**
 * A cable between workstation and machine on which an init waits for the word to go: what the CLI says passes, and so
 * does every answer, until it says something long. All but a part of that has then to wait.
 */
export class HeldInit implements AsyncDisposable {
  readonly endpoint: string;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #standing = Promise.withResolvers<void>();
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
    if (address === null || typeof address === 'string') throw new Error('a line without a place');
    const line = new HeldInit(server, `${host}:${address.port}`);
    server.on('connection', (near) => line.#join(near, connect(machine)));
    return line;
  }

  /** Resolves when an init stands here. */
  get held(): Promise<void> {
    return this.#standing.promise;
  }

  /** From now on everything passes. */
  release(): void {
    this.#open = true;
    for (const bytes of this.#held?.bytes ?? []) this.#held?.far.write(bytes);
    this.#held = undefined;
  }

  /** For the next init. */
  hold(): void {
    this.release();
    this.#open = false;
    this.#standing = Promise.withResolvers();
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
      else (this.#held ??= this.#stand(far)).bytes.push(bytes);
    });
  }

  #stand(far: Socket): { readonly far: Socket; readonly bytes: Buffer[] } {
    this.#standing.resolve();
    return { far, bytes: [] };
  }
}
