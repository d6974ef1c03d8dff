import { once } from 'node:events';
import type { Socket } from 'node:net';
import { withTimeout } from '../cleanup/index.ts';
import type { Clock } from '../clock/index.ts';
import { holderOf, plainAddress, readProxyHeader } from '../endpoint/index.ts';
import { RpcError } from './errors.ts';
import { relayedPathOf, sourcePathOf, type SourcePath } from './source-path.ts';

/** An honest client sends its first bytes, and a relay its header, as soon as it is connected. */
const FIRST_BYTES_MS = 1_000;
/**
 * The maximum number of connections whose first bytes are awaited before they queue for a handshake. Connections above
 * this number are counted by their own address only, without reading a header.
 */
const MAX_READING = 256;
/** For each IPv4 address or IPv6 /64. */
const MAX_READING_PER_HOLDER = 64;

/** Where a connection comes from. */
export interface Source {
  readonly path: SourcePath;
  /**
   * The client's address as the relay announced it, which nothing proves. '' if the relay announced no address; absent
   * without a relay.
   */
  readonly announced?: string;
  /**
   * Whether the first bytes arrived in time. If they did, the header has been read, and the remaining bytes contain
   * none.
   */
  readonly isRead: boolean;
}

/**
 * Reads the header of relays (`readProxyHeader`), so that clients of one relay have separate shares. Anybody may send a
 * header. It only divides the share of the address that sent it, so a client gains nothing with a false header.
 */
export class RelayedSources {
  readonly #clock: Clock;
  readonly #reading = new Map<string, number>();
  #total = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * The source of a connection. Silent connections, and those beyond the limits, have the share of their own address.
   * @throws RpcError `rpc-handshake` for a malformed header
   */
  async identify(socket: Socket, signal: AbortSignal): Promise<Source> {
    const address = plainAddress(socket.remoteAddress ?? '');
    const path = sourcePathOf(address);
    const holder = holderOf(address);
    const held = this.#reading.get(holder) ?? 0;
    if (this.#total >= MAX_READING || held >= MAX_READING_PER_HOLDER) return { path, isRead: false };
    this.#reading.set(holder, held + 1);
    this.#total++;
    try {
      const { announced, isRead } = await this.takeHeader(socket, signal);
      if (announced === undefined) return { path, isRead };
      return { path: relayedPathOf(address, announced), announced, isRead };
    } finally {
      this.#total--;
      const left = (this.#reading.get(holder) ?? 1) - 1;
      if (left === 0) this.#reading.delete(holder);
      else this.#reading.set(holder, left);
    }
  }

  /**
   * Removes the header from the first bytes of a connection, and leaves all other bytes.
   * @returns the announced address, if there is a header; `isRead` is false if nothing arrived in time
   * @throws RpcError `rpc-handshake` for a malformed header
   */
  async takeHeader(socket: Socket, signal: AbortSignal): Promise<Omit<Source, 'path'>> {
    try {
      const options = { what: 'first bytes', ms: FIRST_BYTES_MS, clock: this.#clock, signal };
      const announced = await withTimeout(options, (child) => readHeader(socket, child));
      return announced === undefined ? { isRead: true } : { announced, isRead: true };
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof SyntaxError)
        throw new RpcError('rpc-handshake', 'reading the header of a relay', { cause: error });
      return { isRead: false }; // silent, or closed: the handshake has its own time limit and error
    }
  }
}

async function readHeader(socket: Socket, signal: AbortSignal): Promise<string | undefined> {
  let bytes: Uint8Array = new Uint8Array();
  for (;;) {
    try {
      if (socket.readableLength === 0) await once(socket, 'readable', { signal });
    } catch (error) {
      giveBack(socket, bytes);
      throw error;
    }
    const chunk = socket.read() as Buffer | null;
    if (chunk === null) {
      giveBack(socket, bytes);
      return undefined; // the end of the stream emits 'readable' too
    }
    bytes = Buffer.concat([bytes, chunk]);
    const header = readProxyHeader(bytes);
    if (header.kind === 'incomplete') continue;
    giveBack(socket, header.kind === 'none' ? bytes : bytes.subarray(header.sizeBytes));
    return header.kind === 'none' ? undefined : header.clientAddress;
  }
}

function giveBack(socket: Socket, bytes: Uint8Array): void {
  if (bytes.length > 0 && !socket.destroyed) socket.unshift(bytes);
}
