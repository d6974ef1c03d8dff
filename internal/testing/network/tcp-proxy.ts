import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

/** A TCP proxy between a client and a server. A test can cut it, restore it, or let it drop all data silently. */
export class TcpProxy implements AsyncDisposable {
  readonly #sockets = new Set<Socket>();
  readonly #server;
  #isCut = false;

  /** `to`: "host:port" */
  constructor(to: string) {
    const [host = '', port] = to.split(':');
    this.#server = createServer((near) => {
      if (this.#isCut) return void near.destroy();
      const far = connect({ host, port: Number(port) });
      this.#join(near, far);
      this.#join(far, near);
    });
  }

  /** Returns the "host:port" on which the proxy listens. */
  async open(host = '127.0.0.1', port = 0): Promise<string> {
    this.#server.listen(port, host);
    await once(this.#server, 'listening');
    return `${host}:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Breaks every connection and refuses new ones. */
  cut(): void {
    this.#isCut = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  restore(): void {
    this.#isCut = false;
  }

  /** Keeps connections open but forwards nothing more, like a machine that lost its power. */
  swallow(): void {
    for (const socket of this.#sockets) {
      socket.unpipe();
      socket.resume();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #join(from: Socket, into: Socket): void {
    this.#sockets.add(from);
    from.pipe(into);
    from.on('error', () => undefined);
    from.once('close', () => {
      this.#sockets.delete(from);
      into.destroy();
    });
  }
}
