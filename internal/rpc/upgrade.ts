import type { Socket } from 'node:net';

/** A connection with an authenticated peer. */
export interface Upgraded<P> {
  /** A `TLSSocket`, except for Unix sockets between two processes of one machine. */
  readonly socket: Socket;
  readonly peer: P;
}

/**
 * Authenticates the peer of a new connection, or rejects. Has its own time limits. Waits for the callback of
 * every write before it resolves, because otherwise http2 would abort the process.
 */
export type Upgrade<P> = (socket: Socket, signal: AbortSignal) => Promise<Upgraded<P>>;
