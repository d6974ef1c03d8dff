import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import type { Clock } from '../../internal/clock/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { UpstreamPool, type ApilbConfig, type Upstream } from './upstreams.ts';

const CONNECT_MS = 3_000;

/** Passes TCP connections on to an API server that answers. TLS goes through untouched. */
export class Balancer implements AsyncDisposable {
  readonly #pool: UpstreamPool;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #clock: Clock;
  readonly #log: Logger;

  constructor(options: {
    readonly upstreams: ApilbConfig['upstreams'];
    readonly clock: Clock;
    readonly log: Logger;
  }) {
    this.#pool = new UpstreamPool(options.upstreams);
    this.#clock = options.clock;
    this.#log = options.log;
    this.#server = createServer(
      { pauseOnConnect: true, noDelay: true, allowHalfOpen: true },
      (socket) => void this.#pass(socket),
    );
  }

  async listen(listen: ApilbConfig['listen']): Promise<number> {
    this.#server.listen(listen.port, listen.host);
    await once(this.#server, 'listening');
    return (this.#server.address() as { port: number }).port;
  }

  /** New connections use the new list; those under way stay where they are. */
  replace(upstreams: ApilbConfig['upstreams']): void {
    this.#pool.replace(upstreams);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  async #pass(client: Socket): Promise<void> {
    this.#track(client);
    for (const upstream of this.#pool.inOrder(this.#clock.monotonicMs())) {
      if (client.destroyed) return;
      const server = await this.#dial(upstream);
      if (server === undefined) continue;
      this.#track(server);
      return join(client, server);
    }
    this.#log.warn('no API server answers', {});
    client.destroy();
  }

  async #dial(upstream: Upstream): Promise<Socket | undefined> {
    const socket = connect({ ...upstream, noDelay: true, allowHalfOpen: true, timeout: CONNECT_MS });
    socket.once('timeout', () => socket.destroy(new Error(`no answer within ${CONNECT_MS} ms`)));
    try {
      await once(socket, 'connect');
      socket.setTimeout(0);
      this.#pool.worked(upstream);
      return socket;
    } catch (error) {
      this.#pool.failed(upstream, this.#clock.monotonicMs());
      this.#log.info('an API server does not answer', { upstream, error });
      return undefined;
    }
  }

  #track(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => undefined); // 'close' follows and is what counts
    socket.once('close', () => this.#sockets.delete(socket));
  }
}

function join(client: Socket, server: Socket): void {
  const cut = (): void => {
    client.destroy();
    server.destroy();
  };
  client.once('close', cut);
  server.once('close', cut);
  client.pipe(server);
  server.pipe(client);
}
