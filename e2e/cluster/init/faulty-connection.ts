import { createServer, connect, type Server, type Socket } from 'node:net';
import { once } from 'node:events';

interface Wire {
  readonly near: Socket;
  readonly far: Socket;
}

/**
 * A proxy between workstation and machine. It can close its connections (FIN), reset them (RST), or silently
 * stop forwarding. It listens on the host's address in the cluster's network.
 */
export class FaultyConnection implements AsyncDisposable {
  readonly #server: Server;
  readonly #wires = new Set<Wire>();
  readonly #address: string;
  #dead = false;
  /** Number of accepted connections. */
  made = 0;

  private constructor(server: Server, address: string) {
    this.#server = server;
    this.#address = address;
  }

  static async open(
    host: string,
    far: { readonly host: string; readonly port: number },
  ): Promise<FaultyConnection> {
    const server = createServer({ pauseOnConnect: true });
    server.listen({ host, port: 0 });
    await once(server, 'listening');
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('the proxy has no TCP address');
    const cable = new FaultyConnection(server, `${host}:${address.port}`);
    server.on('connection', (near) => cable.#plug(near, connect(far)));
    return cable;
  }

  /** The endpoint at which the CLI connects to the machine through this proxy. */
  get endpoint(): string {
    return this.#address;
  }

  /** Closes all connections in order, at both ends. */
  cut(): void {
    for (const { near, far } of this.#wires) {
      near.end();
      far.end();
      near.destroySoon();
      far.destroySoon();
    }
  }

  reset(): void {
    for (const { near, far } of this.#wires) {
      near.resetAndDestroy();
      far.resetAndDestroy();
    }
  }

  /** Stops forwarding on existing connections without closing them. New connections work. */
  stall(): void {
    for (const { near, far } of this.#wires) {
      near.unpipe(far).pause();
      far.unpipe(near).pause();
    }
  }

  /** If true, existing and new connections stay open and carry no data. */
  setSilent(dead: boolean): void {
    this.#dead = dead;
    if (dead) this.stall();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.reset();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #plug(near: Socket, far: Socket): void {
    const wire = { near, far };
    this.made += 1;
    this.#wires.add(wire);
    const gone = (): void => {
      this.#wires.delete(wire);
      near.destroy();
      far.destroy();
    };
    for (const socket of [near, far]) socket.once('close', gone).on('error', gone);
    if (this.#dead) return;
    near.pipe(far).pipe(near);
  }
}
