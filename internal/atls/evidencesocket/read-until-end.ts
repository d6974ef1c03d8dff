import type { Socket } from 'node:net';
import { malformed } from './messages.ts';

/**
 * Reads from the socket until the peer closes its writing side. Throws EvidenceSocketError as soon as there are more than
 * `maxBytes`, or when the connection breaks.
 */
export async function readUntilEnd(socket: Socket, maxBytes: number, signal: AbortSignal): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  const onAbort = (): void => reject(signal.reason as Error);
  const onClose = (): void => reject(malformed('a message: the connection was closed early'));
  const onData = (chunk: Buffer): void => {
    sizeBytes += chunk.length;
    if (sizeBytes > maxBytes) reject(malformed(`a message of more than ${maxBytes} bytes`));
    else chunks.push(chunk);
  };
  const onEnd = (): void => resolve(Buffer.concat(chunks));
  socket.on('data', onData).once('end', onEnd).once('error', reject).once('close', onClose);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    signal.throwIfAborted();
    return await promise;
  } finally {
    signal.removeEventListener('abort', onAbort);
    socket.off('data', onData).off('end', onEnd).off('close', onClose).off('error', reject);
  }
}
