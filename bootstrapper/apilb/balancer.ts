import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { formatDuration, type Clock } from '../../internal/clock/index.ts';
import { encodeProxyHeader, plainAddress } from '../../internal/endpoint/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import type { Endpoint, ForwardRule } from './config.ts';
import { ConnectionLimiter } from './connection-limiter.ts';
import { HealthChecks, type UpstreamHealth, type UpstreamProbe } from './health-checks.ts';
import { upstreamKey, UpstreamPool } from './upstreams.ts';

const CONNECT_MS = 3_000;
/** Minimum time between log lines, so that untrusted clients cannot fill the journal. */
const LOG_INTERVAL_MS = 10_000;

/**
 * Forwards the TCP connections of one forward rule to a server that answers. The balancer does not terminate
 * TLS: the session is between client and server.
 */
export class Balancer implements AsyncDisposable {
  readonly #pool: UpstreamPool;
  readonly #announcesClients: boolean;
  readonly #limiter: ConnectionLimiter | undefined;
  #health: HealthChecks | undefined;
  #upstreams: ForwardRule['upstreams'];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** The open connections to each upstream, by the upstream's key. */
  readonly #connections = new Map<string, Set<Socket>>();
  readonly #clock: Clock;
  readonly #log: Logger;
  #loggedMs = -Infinity;

  constructor(options: {
    readonly rule: Pick<ForwardRule, 'upstreams' | 'limits' | 'announcesClients'>;
    readonly clock: Clock;
    readonly log: Logger;
  }) {
    const { rule, clock, log } = options;
    const { upstreams, limits } = rule;
    this.#announcesClients = rule.announcesClients === true;
    this.#limiter = limits === undefined ? undefined : new ConnectionLimiter(limits, clock);
    this.#clock = clock;
    this.#log = log;
    this.#upstreams = upstreams;
    this.#pool = new UpstreamPool(upstreams, (upstream) => this.#health?.verdictOf(upstream) ?? 'unknown');
    this.#server = createServer(
      { pauseOnConnect: true, noDelay: true, allowHalfOpen: true },
      (socket) => void this.#forward(socket),
    );
  }

  /** Accepts connections. @returns the listening port; the kernel chooses it if the given port is 0 */
  async listen(listen: Endpoint): Promise<number> {
    this.#server.listen(listen.port, listen.host);
    await once(this.#server, 'listening');
    return (this.#server.address() as { port: number }).port;
  }

  /** Uses these servers for new connections; existing connections stay open. */
  replace(upstreams: ForwardRule['upstreams']): void {
    this.#upstreams = upstreams;
    this.#pool.replace(upstreams);
    this.#health?.replace(upstreams);
  }

  /** Starts health checks. Without them, only failed connections show that a server is down. */
  checkHealth(options: { readonly probe: UpstreamProbe; readonly random: () => number }): void {
    this.#health?.[Symbol.dispose]();
    this.#health = new HealthChecks({
      ...{ ...options, clock: this.#clock, log: this.#log },
      isUsed: (upstream) => this.#connections.has(upstreamKey(upstream)),
      cut: (upstream) => {
        for (const socket of this.#connections.get(upstreamKey(upstream)) ?? []) socket.destroy();
      },
    });
    this.#health.replace(this.#upstreams);
  }

  /** The health of each server; an empty list without health checks. */
  states(): readonly (UpstreamHealth & { readonly connections: number })[] {
    return (this.#health?.states() ?? []).map((state) => ({
      ...state,
      connections: this.#connections.get(upstreamKey(state.upstream))?.size ?? 0,
    }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#health?.[Symbol.dispose]();
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  async #forward(client: Socket): Promise<void> {
    this.#track(client);
    if (this.#limiter?.admit(client) === false) {
      client.destroy();
      return this.#logLimited('warn', 'too many connections', { source: client.remoteAddress });
    }
    for (const upstream of this.#pool.inOrder(this.#clock.monotonicMs())) {
      if (client.destroyed) return;
      const server = await this.#dial(upstream);
      if (server === undefined) continue;
      this.#track(server);
      this.#count(upstream, server);
      this.#limiter?.watch(client, server);
      if (this.#announcesClients)
        server.write(encodeProxyHeader(plainAddress(client.remoteAddress ?? ''), client.remotePort ?? 0));
      return join(client, server);
    }
    this.#logLimited('warn', 'no server answers', {});
    client.destroy();
  }

  async #dial(upstream: Endpoint): Promise<Socket | undefined> {
    const socket = connect({ ...upstream, noDelay: true, allowHalfOpen: true, timeout: CONNECT_MS });
    socket.once('timeout', () => socket.destroy(new Error(`no answer within ${formatDuration(CONNECT_MS)}`)));
    try {
      await once(socket, 'connect');
      socket.setTimeout(0);
      this.#pool.recordSuccess(upstream);
      return socket;
    } catch (error) {
      this.#pool.recordFailure(upstream, this.#clock.monotonicMs());
      this.#logLimited('info', 'a server does not answer', { upstream, error });
      return undefined;
    }
  }

  /**
   * Logs at once if only local programs can connect. If untrusted clients can connect, logs at most every 10
   * s.
   */
  #logLimited(level: 'info' | 'warn', what: string, fields: Readonly<Record<string, unknown>>): void {
    const nowMs = this.#clock.monotonicMs();
    if (this.#limiter !== undefined && nowMs - this.#loggedMs < LOG_INTERVAL_MS) return;
    this.#loggedMs = nowMs;
    this.#log[level](what, fields);
  }

  #count(upstream: Endpoint, server: Socket): void {
    const key = upstreamKey(upstream);
    const sockets = this.#connections.get(key) ?? new Set();
    this.#connections.set(key, sockets.add(server));
    if (sockets.size === 1) this.#health?.used(upstream);
    server.once('close', () => {
      sockets.delete(server);
      if (sockets.size === 0 && this.#connections.get(key) === sockets) this.#connections.delete(key);
    });
  }

  #track(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => undefined); // the 'close' event follows and is handled
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
