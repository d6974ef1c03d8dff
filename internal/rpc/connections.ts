import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import type { Logger } from '../logging/index.ts';
import type { SourcePath } from './source-path.ts';

/** The facts that a handler has about its call. */
export interface Call<P> {
  /** The caller, as the upgrade authenticated it. */
  readonly peer: P;
  /** IP address of the caller; absent for Unix sockets. */
  readonly address?: string;
  /**
   * The source whose share of a limit the call uses: the networks of `address`, and behind a relay also the networks of
   * its client. Absent for Unix sockets.
   */
  readonly source?: SourcePath;
  /** Fires when the caller disconnects or the server closes. */
  readonly signal: AbortSignal;
}

/** How many connections one peer may have. */
export interface ConnectionLimits<P> {
  /**
   * Connections of peers with the same name are counted together. Beyond the limit, the oldest of these connections is
   * closed. Default: no limit.
   */
  readonly perPeer?: { readonly nameOf: (peer: P) => string; readonly maxConnections: number };
}

/** Authenticated connections and the calls in progress on each. */
export class Connections<P> {
  readonly #limits: ConnectionLimits<P>;
  readonly #log: Logger;
  readonly #byName = new Map<string, Connection<P>>();
  readonly #byPeer = new Map<string, Set<Socket>>();
  #closed: { readonly reason: unknown } | undefined;

  constructor(options: ConnectionLimits<P> & { readonly log: Logger }) {
    this.#limits = options;
    this.#log = options.log;
  }

  /**
   * Adds a connection. grpc-js identifies the peer of a call by the `remoteAddress` and port of its socket. That pair is
   * not unique: one host can use it twice, towards two addresses of this server. So the socket gets a random name
   * instead, which no client can choose.
   */
  register(socket: Socket, known: Connection<P>['known']): void {
    const name = `connection-${randomUUID()}`;
    Object.defineProperty(socket, 'remoteAddress', { value: name });
    const key = socket.remotePort === undefined ? name : `${name}:${socket.remotePort}`;
    this.#byName.set(key, { known, calls: new Set() });
    socket.once('close', () => this.#byName.delete(key));
    this.#countPeer(socket, known.peer);
  }

  /** Registers a call with its connection until it is disposed. */
  beginCall(call: GrpcCall): { readonly call: Call<P> } & Disposable {
    const connection = this.#byName.get(call.getPeer());
    if (connection === undefined) throw new Error('call on an unauthenticated connection');
    const { known, calls } = connection;
    // Each call has its own controller instead of a listener on a common signal. Adding or removing a listener scans
    // all other listeners, and there may be tens of thousands.
    const controller = new AbortController();
    const onCancelled = (): void => controller.abort(new Error('the caller disconnected'));
    call.once('cancelled', onCancelled);
    calls.add(controller);
    if (this.#closed !== undefined) controller.abort(this.#closed.reason);
    return {
      call: { ...known, signal: controller.signal },
      [Symbol.dispose]: () => {
        call.off('cancelled', onCancelled);
        calls.delete(controller);
      },
    };
  }

  /** Aborts every call, and every call that begins later. */
  close(reason: unknown): void {
    this.#closed = { reason };
    for (const { calls } of this.#byName.values()) for (const each of calls) each.abort(reason);
  }

  /**
   * Limits the connections of one peer. The oldest connection is closed, because a peer that reconnects does not know
   * that its previous connection is still open here.
   */
  #countPeer(socket: Socket, peer: P): void {
    const { perPeer } = this.#limits;
    if (perPeer === undefined) return;
    const name = perPeer.nameOf(peer);
    const sockets = this.#byPeer.get(name) ?? new Set();
    this.#byPeer.set(name, sockets.add(socket));
    socket.once('close', () => {
      sockets.delete(socket);
      if (sockets.size === 0 && this.#byPeer.get(name) === sockets) this.#byPeer.delete(name);
    });
    const [oldest] = sockets;
    if (sockets.size <= perPeer.maxConnections || oldest === undefined) return;
    this.#log.warn('too many connections of one peer, closing its oldest', {
      peer: name,
      limit: perPeer.maxConnections,
    });
    sockets.delete(oldest);
    oldest.destroy();
  }
}

/** An authenticated connection and its calls in progress. */
interface Connection<P> {
  readonly known: Pick<Call<P>, 'peer' | 'address' | 'source'>;
  readonly calls: Set<AbortController>;
}

/** The part of a grpc-js call that is used here. */
export interface GrpcCall {
  getPeer(): string;
  once(event: 'cancelled', listener: () => void): unknown;
  off(event: 'cancelled', listener: () => void): unknown;
}
