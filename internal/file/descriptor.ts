import { fstat, read } from 'node:fs';
import { Socket } from 'node:net';
import { promisify } from 'node:util';
import { attempt, FileError } from './errors.ts';

const readOnce = promisify(read);

/**
 * Reads an inherited file descriptor to its end: a pipe, a socket or a file. A terminal is refused, since it shows what is typed.
 * The descriptor must not be used again.
 * @throws FileError `file-too-large` beyond `maxBytes`, `file-io`
 */
export async function readDescriptor(
  descriptor: number,
  options: { readonly maxBytes: number; readonly signal: AbortSignal },
): Promise<Uint8Array> {
  const name = `descriptor ${descriptor}`;
  return attempt(`reading ${name}`, async () => {
    const stat = await promisify(fstat)(descriptor);
    if (stat.isFile()) return readFile(descriptor, options.maxBytes);
    if (stat.isFIFO() || stat.isSocket()) return readStream(descriptor, options);
    throw new Error('it is neither a pipe nor a socket nor a file');
  });
}

async function readFile(descriptor: number, maxBytes: number): Promise<Uint8Array> {
  const buffer = Buffer.alloc(maxBytes + 1);
  for (let length = 0; ;) {
    const { bytesRead } = await readOnce(descriptor, buffer, length, buffer.length - length, null);
    length += bytesRead;
    if (length > maxBytes) throw tooLarge(descriptor, maxBytes);
    if (bytesRead === 0) return new Uint8Array(buffer.subarray(0, length));
  }
}

/**
 * Reads through the event loop. A blocking read would occupy a thread of libuv's pool, and the signal could not abort
 * it.
 */
async function readStream(
  descriptor: number,
  { maxBytes, signal }: { readonly maxBytes: number; readonly signal: AbortSignal },
): Promise<Uint8Array> {
  const socket = new Socket({ fd: descriptor, readable: true, writable: false, signal });
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > maxBytes) throw tooLarge(descriptor, maxBytes);
  }
  return new Uint8Array(Buffer.concat(chunks));
}

function tooLarge(descriptor: number, maxBytes: number): FileError {
  return new FileError('file-too-large', `reading descriptor ${descriptor}: more than ${maxBytes} bytes`);
}
