import type {
  DescMethodBiDiStreaming,
  DescMethodClientStreaming,
  DescMethodServerStreaming,
  DescMethodUnary,
  DescService,
  MessageInitShape,
  MessageShape,
} from '@bufbuild/protobuf';
import {
  Server as GrpcServer,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerReadableStream,
  type ServerUnaryCall,
  type ServerWritableStream,
  type sendUnaryData,
  type UntypedHandleCall,
} from '@grpc/grpc-js';
import { once } from 'node:events';
import { createServer, type AddressInfo, type Server as NetServer, type Socket } from 'node:net';
import type { Clock } from '../clock/index.ts';
import { formatEndpoint, plainAddress } from '../endpoint/index.ts';
import type { Logger } from '../logging/index.ts';
import { FLOW_CONTROL_WINDOW, MAX_MESSAGE_BYTES } from './channel.ts';
import { serviceDefinition } from './codec.ts';
import { Connections, type Call, type ConnectionLimits, type GrpcCall } from './connections.ts';
import { statusFromError, type Disclosure } from './errors.ts';
import { ConnectionLimiter, type PendingLimits } from './connection-limiter.ts';
import { RelayedSources, type Source } from './relayed-source.ts';
import { sourcePathOf } from './source-path.ts';
import type { Upgrade } from './upgrade.ts';

export type { Call } from './connections.ts';

/** The methods of a service: promises for single responses, async iterables for streams. */
export type Handlers<S extends DescService, P> = {
  readonly [K in keyof S['method']]: Handler<S['method'][K], P>;
};

type Handler<M, P> =
  M extends DescMethodUnary<infer I, infer O>
    ? (request: MessageShape<I>, call: Call<P>) => Promise<MessageInitShape<O>>
    : M extends DescMethodServerStreaming<infer I, infer O>
      ? (request: MessageShape<I>, call: Call<P>) => AsyncIterable<MessageInitShape<O>>
      : M extends DescMethodClientStreaming<infer I, infer O>
        ? (requests: AsyncIterable<MessageShape<I>>, call: Call<P>) => Promise<MessageInitShape<O>>
        : M extends DescMethodBiDiStreaming<infer I, infer O>
          ? (requests: AsyncIterable<MessageShape<I>>, call: Call<P>) => AsyncIterable<MessageInitShape<O>>
          : never;

/** A service with its handlers. */
export interface Implementation<P> {
  readonly service: DescService;
  readonly handlers: Readonly<Record<string, unknown>>;
  readonly peerType?: (peer: P) => void;
}

/** Pairs a service with its handlers, for `RpcServerOptions.services`. */
export function implement<S extends DescService, P>(service: S, handlers: Handlers<S, P>): Implementation<P> {
  return { service, handlers };
}

/** The services of an `RpcServer`, and its limits. */
export interface RpcServerOptions<P> extends ConnectionLimits<P> {
  readonly upgrade: Upgrade<P>;
  readonly services: readonly [Implementation<P>, ...Implementation<P>[]];
  readonly disclose: Disclosure;
  readonly clock: Clock;
  readonly log: Logger;
  /** Connections at once, including those in the handshake; with `pending` only the authenticated ones. */
  readonly maxConnections?: number;
  /** Limits of handshakes, for ports that unauthenticated clients reach. Default: no limits. */
  readonly pending?: PendingLimits;
  /** Calls at once over one connection, streams included; more are refused. Default: no limit. */
  readonly maxCallsPerConnection?: number;
  /** A connection is closed gracefully at this age, so that its peer must authenticate again. */
  readonly maxConnectionAgeMs?: number;
}

/** A gRPC server that authenticates each connection before any gRPC byte. */
export class RpcServer<P> implements AsyncDisposable {
  readonly #options: RpcServerOptions<P>;
  readonly #grpc: GrpcServer;
  readonly #net: NetServer;
  readonly #closing = new AbortController();
  readonly #sockets = new Set<Socket>();
  readonly #connections: Connections<P>;
  readonly #limiter: ConnectionLimiter;
  readonly #sources: RelayedSources | undefined;
  readonly #injector: ReturnType<GrpcServer['createConnectionInjector']>;

  constructor(options: RpcServerOptions<P>) {
    this.#options = options;
    this.#grpc = new GrpcServer({
      'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
      'grpc.keepalive_time_ms': 20_000,
      'grpc.keepalive_timeout_ms': 10_000,
      'grpc-node.flow_control_window': FLOW_CONTROL_WINDOW,
      // Disables statistics of every connection and message, which nothing here reads.
      'grpc.enable_channelz': 0,
      ...(options.maxCallsPerConnection === undefined
        ? {}
        : { 'grpc.max_concurrent_streams': options.maxCallsPerConnection }),
      ...(options.maxConnectionAgeMs === undefined
        ? {}
        : {
            'grpc.max_connection_age_ms': options.maxConnectionAgeMs,
            'grpc.max_connection_age_grace_ms': 30_000,
          }),
    });
    for (const { service, handlers } of options.services) {
      const bound = service.methods.map(
        (method) => [method.localName, this.#handler(method.methodKind, handlers[method.localName])] as const,
      );
      this.#grpc.addService(serviceDefinition(service), Object.fromEntries(bound));
    }
    this.#injector = this.#grpc.createConnectionInjector(ServerCredentials.createInsecure());
    this.#net = createServer({ noDelay: true }, (socket) => void this.#accept(socket));
    this.#connections = new Connections(options);
    this.#limiter = new ConnectionLimiter(options);
    this.#sources = options.pending === undefined ? undefined : new RelayedSources(options.clock);
    this.#net.maxConnections = this.#limiter.maxSockets;
  }

  /** Listens on a TCP port (0: any free one). @returns the port */
  listen(host: string, port: number): Promise<number> {
    return this.#listen({ host, port });
  }

  /** Listens on a TCP port at all addresses of both IP families, or of IPv4 where the kernel has no IPv6. @returns the port */
  listenEverywhere(port: number): Promise<number> {
    return this.#listen({ port });
  }

  async #listen(at: { readonly host?: string; readonly port: number }): Promise<number> {
    this.#net.listen({ ...at, backlog: this.#limiter.backlog });
    await once(this.#net, 'listening');
    return (this.#net.address() as AddressInfo).port;
  }

  /** Listens at a Unix socket. Its directory and `umask` decide who may connect. */
  async listenAt(path: string): Promise<void> {
    this.#net.listen({ path });
    await once(this.#net, 'listening');
  }

  /** Stops listening, waits up to `graceMs` for calls to end, then closes their connections. */
  async close(graceMs: number): Promise<void> {
    if (this.#closing.signal.aborted) return;
    this.#net.close();
    this.#closing.abort(new Error('the server is closing'));
    this.#connections.close(this.#closing.signal.reason);
    this.#injector.drain(graceMs);
    this.#grpc.tryShutdown(() => undefined);
    // A drained session closes its socket after the last response; tryShutdown() does not wait for that.
    const closed = Promise.all(
      [...this.#sockets].map((socket) => new Promise((resolve) => socket.once('close', resolve))),
    );
    const inTime = new AbortController();
    const force = this.#options.clock.sleep(graceMs, inTime.signal).then(
      () => {
        this.#grpc.forceShutdown();
        for (const socket of this.#sockets) socket.destroy();
      },
      () => undefined,
    );
    await closed;
    inTime.abort();
    await force;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close(0);
  }

  async #accept(socket: Socket): Promise<void> {
    const address = plainAddress(socket.remoteAddress ?? '');
    const source = formatEndpoint(address, socket.remotePort ?? 0);
    this.#sockets.add(socket);
    socket.on('error', () => undefined); // 'close' follows
    socket.once('close', () => this.#sockets.delete(socket));
    let from: Source = { path: sourcePathOf(address), isRead: false };
    const { signal } = this.#closing;
    try {
      if (this.#sources !== undefined) from = await this.#sources.identify(socket, signal);
      using _slot = await this.#limiter.acquire(socket, from.path, signal);
      // A relay header that arrived too late to be counted must still be removed, because TLS would fail on it.
      if (!from.isRead) await this.#sources?.takeHeader(socket, signal);
      const upgraded = await this.#options.upgrade(socket, this.#closing.signal);
      if (upgraded.socket.destroyed || this.#closing.signal.aborted) return void upgraded.socket.destroy();
      upgraded.socket.on('error', () => undefined);
      this.#limiter.addEstablished(upgraded.socket, from.path);
      this.#connections.register(upgraded.socket, { peer: upgraded.peer, address, source: from.path });
      this.#injector.injectConnection(upgraded.socket);
    } catch (error) {
      socket.destroy();
      const { announced } = from;
      this.#options.log.warn('connection refused', {
        source,
        ...(announced === undefined ? {} : { announced }),
        error,
      });
    }
  }

  #handler(kind: string, handler: unknown): UntypedHandleCall {
    const disclose = this.#options.disclose;
    type Single = (request: unknown, call: Call<P>) => Promise<unknown>;
    type Many = (request: unknown, call: Call<P>) => AsyncIterable<unknown>;
    const answer = async (call: GrpcCall, request: unknown, done: sendUnaryData<unknown>): Promise<void> => {
      try {
        using begun = this.#connections.beginCall(call);
        done(null, await (handler as Single)(request, begun.call));
      } catch (error) {
        this.#options.log.debug('call failed', { error });
        done(statusFromError(error, disclose));
      }
    };
    const stream = async (
      call: ServerWritableStream<unknown, unknown> | ServerDuplexStream<unknown, unknown>,
      request: unknown,
    ): Promise<void> => {
      try {
        using begun = this.#connections.beginCall(call);
        const { signal } = begun.call;
        for await (const message of (handler as Many)(request, begun.call)) {
          signal.throwIfAborted();
          if (!call.write(message)) await once(call, 'drain', { signal });
        }
        call.end();
      } catch (error) {
        if (call.cancelled) return;
        this.#options.log.debug('call failed', { error });
        call.emit('error', statusFromError(error, disclose));
      }
    };
    switch (kind) {
      case 'unary':
        return (call: ServerUnaryCall<unknown, unknown>, done: sendUnaryData<unknown>) =>
          void answer(call, call.request, done);
      case 'client_streaming':
        return (call: ServerReadableStream<unknown, unknown>, done: sendUnaryData<unknown>) =>
          void answer(call, call, done);
      case 'server_streaming':
        return (call: ServerWritableStream<unknown, unknown>) => void stream(call, call.request);
      default:
        return (call: ServerDuplexStream<unknown, unknown>) => void stream(call, call);
    }
  }
}
