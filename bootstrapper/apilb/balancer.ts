import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import type { Clock } from '../../internal/clock/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import type { Endpoint, ForwardRule } from './config.ts';
import { ConnectionLimiter } from './connection-limiter.ts';
import { HealthChecks, type UpstreamHealth, type UpstreamProbe } from './health-checks.ts';
import { upstreamKey, UpstreamPool } from './upstreams.ts';

const CONNECT_MS = 3_000;
/** Who can connect must not be able to fill the journal. */
const COMPLAINT_MS = 10_000;

/** Passes TCP connections on to a server that answers. TLS goes through untouched. */
export class Balancer implements AsyncDisposable {
  readonly #pool: UpstreamPool;
  readonly #guests: ConnectionLimiter | undefined;
  #health: HealthChecks | undefined;
  #upstreams: ForwardRule['upstreams'];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** The connections to each upstream that has any. */
  readonly #passed = new Map<string, Set<Socket>>();
  readonly #clock: Clock;
  readonly #log: Logger;
  #complainedMs = -Infinity;

  constructor(options: {
    readonly passage: Pick<ForwardRule, 'upstreams' | 'limits'>;
    readonly clock: Clock;
    readonly log: Logger;
  }) {
    const { passage, clock, log } = options;
    const { upstreams, limits } = passage;
    this.#guests = limits === undefined ? undefined : new ConnectionLimiter(limits, clock);
    this.#clock = clock;
    this.#log = log;
    this.#upstreams = upstreams;
    this.#pool = new UpstreamPool(upstreams, (upstream) => this.#health?.verdictOf(upstream) ?? 'unknown');
    this.#server = createServer(
      { pauseOnConnect: true, noDelay: true, allowHalfOpen: true },
      (socket) => void this.#pass(socket),
    );
  }

  async listen(listen: Endpoint): Promise<number> {
    this.#server.listen(listen.port, listen.host);
    await once(this.#server, 'listening');
    return (this.#server.address() as { port: number }).port;
  }

  /** New connections use the new list; those under way stay where they are. */
  replace(upstreams: ForwardRule['upstreams']): void {
    this.#upstreams = upstreams;
    this.#pool.replace(upstreams);
    this.#health?.replace(upstreams);
  }

  /** From now on asks the upstreams for their health; until then the connections themselves are the only probes. */
  checkHealth(asking: { readonly probe: UpstreamProbe; readonly random: () => number }): void {
    this.#health?.[Symbol.dispose]();
    this.#health = new HealthChecks({
      ...{ ...asking, clock: this.#clock, log: this.#log },
      isUsed: (upstream) => this.#passed.has(upstreamKey(upstream)),
      cut: (upstream) => {
        for (const socket of this.#passed.get(upstreamKey(upstream)) ?? []) socket.destroy();
      },
    });
    this.#health.replace(this.#upstreams);
  }

  /** What the health checks say; empty where there are none. */
  states(): readonly (UpstreamHealth & { readonly connections: number })[] {
    return (this.#health?.states() ?? []).map((state) => ({
      ...state,
      connections: this.#passed.get(upstreamKey(state.upstream))?.size ?? 0,
    }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#health?.[Symbol.dispose]();
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  async #pass(client: Socket): Promise<void> {
    this.#track(client);
    if (this.#guests?.admit(client) === false) {
      client.destroy();
      return this.#complain('warn', 'too many connections', { source: client.remoteAddress });
    }
    for (const upstream of this.#pool.inOrder(this.#clock.monotonicMs())) {
      if (client.destroyed) return;
      const server = await this.#dial(upstream);
      if (server === undefined) continue;
      this.#track(server);
      this.#count(upstream, server);
      this.#guests?.watch(client, server);
      return join(client, server);
    }
    this.#complain('warn', 'no server answers', {});
    client.destroy();
  }

  async #dial(upstream: Endpoint): Promise<Socket | undefined> {
    const socket = connect({ ...upstream, noDelay: true, allowHalfOpen: true, timeout: CONNECT_MS });
    socket.once('timeout', () => socket.destroy(new Error(`no answer within ${CONNECT_MS} ms`)));
    try {
      await once(socket, 'connect');
      socket.setTimeout(0);
      this.#pool.recordSuccess(upstream);
      return socket;
    } catch (error) {
      this.#pool.recordFailure(upstream, this.#clock.monotonicMs());
      this.#complain('info', 'a server does not answer', { upstream, error });
      return undefined;
    }
  }

  /** At once where nobody but this node connects; else now and then. */
  #complain(level: 'info' | 'warn', what: string, fields: Readonly<Record<string, unknown>>): void {
    const nowMs = this.#clock.monotonicMs();
    if (this.#guests !== undefined && nowMs - this.#complainedMs < COMPLAINT_MS) return;
    this.#complainedMs = nowMs;
    this.#log[level](what, fields);
  }

  #count(upstream: Endpoint, server: Socket): void {
    const key = upstreamKey(upstream);
    const sockets = this.#passed.get(key) ?? new Set();
    this.#passed.set(key, sockets.add(server));
    if (sockets.size === 1) this.#health?.used(upstream);
    server.once('close', () => {
      sockets.delete(server);
      if (sockets.size === 0 && this.#passed.get(key) === sockets) this.#passed.delete(key);
    });
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
