import { connect, type NetConnectOpts, type Socket } from 'node:net';
import { formatEndpoint } from '../endpoint/index.ts';
import { malformed, TpmError } from './errors.ts';
import { HEADER_BYTES, MAX_MESSAGE_BYTES, type Transport, type TransportSource } from './transport.ts';

/** Address of a software TPM: a Unix socket or a TCP port. */
export type SocketAddress = { readonly path: string } | { readonly host: string; readonly port: number };

/**
 * The data socket of a software TPM. Commands and responses follow each other without frames; their headers contain
 * their length.
 */
export function socketSource(address: SocketAddress): TransportSource {
  const shown = 'path' in address ? address.path : formatEndpoint(address.host, address.port);
  return {
    address: shown,
    canStayOpen: false,
    open: async (signal) => new SocketTransport(await dial({ ...address, noDelay: true }, shown, signal)),
  };
}

async function dial(options: NetConnectOpts, shown: string, signal: AbortSignal): Promise<Socket> {
  signal.throwIfAborted();
  const socket = connect(options);
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const onAbort = (): void => reject(signal.reason as Error);
  const onError = (error: Error): void =>
    reject(new TpmError('tpm-unavailable', `connecting to the TPM at ${shown}`, { cause: error }));
  signal.addEventListener('abort', onAbort, { once: true });
  socket.once('connect', resolve).once('error', onError);
  try {
    await promise;
    return socket;
  } catch (error) {
    socket.destroy();
    throw error;
  } finally {
    signal.removeEventListener('abort', onAbort);
    socket.off('error', onError).on('error', () => undefined); // 'close' follows later errors and has a listener
  }
}

class SocketTransport implements Transport {
  readonly #socket: Socket;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  async transmit(command: Uint8Array, signal: AbortSignal): Promise<Uint8Array> {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
    const received: Buffer[] = [];
    const onData = (chunk: Buffer): void => {
      received.push(chunk);
      try {
        const whole = wholeMessage(received);
        if (whole !== undefined) resolve(whole);
      } catch (error) {
        reject(error);
      }
    };
    const onClose = (): void =>
      reject(new TpmError('tpm-connection', 'waiting for the response of the TPM: the socket was closed'));
    const onAbort = (): void => reject(signal.reason as Error);
    this.#socket.on('data', onData).once('close', onClose);
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      if (this.#socket.destroyed) onClose();
      else this.#socket.write(command);
      return await promise;
    } finally {
      this.#socket.off('data', onData).off('close', onClose);
      signal.removeEventListener('abort', onAbort);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#socket.destroyed) return;
    const closed = new Promise<void>((resolve) => this.#socket.once('close', () => resolve()));
    this.#socket.destroy();
    await closed;
  }
}

/**
 * The whole message once it is complete; undefined before. Checks the length in the header as soon as it has arrived.
 */
function wholeMessage(chunks: readonly Buffer[]): Uint8Array | undefined {
  const bytes = Buffer.concat(chunks);
  if (bytes.length < HEADER_BYTES) return undefined;
  const length = bytes.readUInt32BE(2);
  if (length < HEADER_BYTES || length > MAX_MESSAGE_BYTES) {
    throw malformed(`a response header: invalid length ${length}`);
  }
  if (bytes.length > length) throw malformed(`a response: ${bytes.length - length} extra bytes`);
  return bytes.length === length ? new Uint8Array(bytes) : undefined;
}
