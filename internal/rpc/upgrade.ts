import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';

/** A connection whose other end has proved who it is. */
export interface Upgraded<P> {
  readonly socket: TLSSocket;
  readonly peer: P;
}

/**
 * Turns a fresh TCP connection into one with a proved peer, or rejects. Owns its own time limits and has
 * waited for the callback of every write before it resolves: http2 aborts the process otherwise.
 */
export type Upgrade<P> = (socket: Socket, signal: AbortSignal) => Promise<Upgraded<P>>;
