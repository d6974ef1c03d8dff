import { once } from 'node:events';
import type { Duplex } from 'node:stream';

const PREFACE_BYTES = 24;
const HEADER_BYTES = 9;
const DATA = 0;

/** One message of a call, of the request or the response. */
export interface TappedMessage {
  readonly direction: 'request' | 'answer';
  /** The same value for a request and its response. */
  readonly call: string;
  readonly body: Buffer;
}

/**
 * A proxy between a gRPC client and server without TLS. Asks `onMessage` about each message before it
 * forwards the bytes. `false` cuts the connection, so that this message and later ones are lost.
 */
export function tapGrpc(
  client: Duplex,
  server: Duplex,
  onMessage: (message: TappedMessage) => boolean,
): void {
  const cut = (): void => {
    client.destroy();
    server.destroy();
  };
  for (const socket of [client, server]) socket.on('error', cut).once('close', cut);
  const connection = crypto.randomUUID();
  const pass = (from: Duplex, to: Duplex, frames: Frames, direction: TappedMessage['direction']): void => {
    from.on('data', (chunk: Buffer) => {
      for (const { stream, body } of frames.push(chunk))
        if (!onMessage({ direction, call: `${connection} ${stream}`, body })) return cut();
      if (!to.write(chunk)) {
        from.pause();
        void once(to, 'drain').then(
          () => from.resume(),
          () => undefined, // the connection was cut
        );
      }
    });
  };
  pass(client, server, new Frames(PREFACE_BYTES), 'request');
  pass(server, client, new Frames(0), 'answer');
}

/** Parses HTTP/2 frames (RFC 9113 §4.1); only DATA frames matter. */
class Frames {
  #left = Buffer.alloc(0);
  #skip: number;

  constructor(skipBytes: number) {
    this.#skip = skipBytes;
  }

  push(chunk: Buffer): readonly { readonly stream: number; readonly body: Buffer }[] {
    this.#left = Buffer.concat([this.#left, chunk]);
    const found: { stream: number; body: Buffer }[] = [];
    if (this.#left.length < this.#skip) return found;
    this.#left = this.#left.subarray(this.#skip);
    this.#skip = 0;
    while (this.#left.length >= HEADER_BYTES) {
      const end = HEADER_BYTES + this.#left.readUIntBE(0, 3);
      if (this.#left.length < end) break;
      const body = this.#left.subarray(HEADER_BYTES, end);
      if (this.#left[3] === DATA && body.length > 0)
        found.push({ stream: this.#left.readUInt32BE(5) & 0x7fffffff, body });
      this.#left = this.#left.subarray(end);
    }
    return found;
  }
}
