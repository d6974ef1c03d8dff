import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import type { Logger } from '../logging/index.ts';

/** What a handler knows of its call. */
export interface Call<P> {
  /** Who asked, as the upgrade proved it. A caller cannot choose it. */
  readonly peer: P;
  /** Where its connection came from; absent for calls that came over none. */
  readonly address?: string;
  /** Fires when the caller has gone or the server closes. */
  readonly signal: AbortSignal;
}

export interface ConnectionLimits<P> {
  /** Who counts as the same peer, and how many connections one may have; its oldest goes. Absent: any number. */
  readonly perPeer?: { readonly nameOf: (peer: P) => string; readonly maxConnections: number };
}

/** Connections that have proved who is at their other end, and the calls under way on each. */
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
   * grpc names the peer of a call by its socket's `remoteAddress` and port. That pair is not unique: one host can hold
   * it twice, towards two addresses of this server, and would be taken for the other. So the socket gets a name of
   * our own that nobody can choose or meet again.
   */
  register(socket: Socket, known: Connection<P>['known']): void {
    const name = `connection-${randomUUID()}`;
    Object.defineProperty(socket, 'remoteAddress', { value: name });
    const key = socket.remotePort === undefined ? name : `${name}:${socket.remotePort}`;
    this.#byName.set(key, { known, calls: new Set() });
    socket.once('close', () => this.#byName.delete(key));
    this.#countPeer(socket, known.peer);
  }

  /** A call of the connection that it came on, while it is under way. */
  beginCall(call: GrpcCall): { readonly call: Call<P> } & Disposable {
    const connection = this.#byName.get(call.getPeer());
    if (connection === undefined) throw new Error('a call on a connection that proved nothing');
    const { known, calls } = connection;
    // Calls stand in a set and do not listen to a signal of the server: that looks through all of its listeners for each
    // that comes or goes, and there may be ten thousands.
    const controller = new AbortController();
    const onCancelled = (): void => controller.abort(new Error('the caller has gone'));
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

  /** Fires the signal of every call, and of those that come. */
  close(reason: unknown): void {
    this.#closed = { reason };
    for (const { calls } of this.#byName.values()) for (const each of calls) each.abort(reason);
  }

  /**
   * One key must not fill a server; and a peer that comes back does not know that its last connection still stands here:
   * whoever comes once more than may loses its own oldest one.
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
    this.#log.warn('too many connections of one peer: its oldest goes', {
      peer: name,
      limit: perPeer.maxConnections,
    });
    sockets.delete(oldest);
    oldest.destroy();
  }
}

/** One that has proved itself, and its calls under way. */
interface Connection<P> {
  readonly known: Pick<Call<P>, 'peer' | 'address'>;
  readonly calls: Set<AbortController>;
}

/** A call of grpc-js, as far as it is needed. */
export interface GrpcCall {
  getPeer(): string;
  once(event: 'cancelled', listener: () => void): unknown;
  off(event: 'cancelled', listener: () => void): unknown;
}
