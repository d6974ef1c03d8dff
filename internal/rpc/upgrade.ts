import type { Socket } from 'node:net';

/** A connection whose other end has proved who it is. */
export interface Upgraded<P> {
  /** A `TLSSocket`, but for Unix sockets between two processes of one machine. */
  readonly socket: Socket;
  readonly peer: P;
}

/**
 * Turns a fresh TCP connection into one with a proved peer, or rejects. Owns its own time limits and has
 * waited for the callback of every write before it resolves: http2 aborts the process otherwise.
 */
export type Upgrade<P> = (socket: Socket, signal: AbortSignal) => Promise<Upgraded<P>>;
