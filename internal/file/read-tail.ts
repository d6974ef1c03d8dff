import type { StreamPort } from './disk-streams.ts';

/** The last bytes of a file that may be large, and may grow while it is read. @throws FileError */
export async function readTail(
  streams: Pick<StreamPort, 'readChunks'>,
  path: string,
  of: { readonly sizeBytes: number; readonly maxBytes: number; readonly signal: AbortSignal },
): Promise<Buffer> {
  const { sizeBytes, maxBytes, signal } = of;
  const chunks: Uint8Array[] = [];
  let left = maxBytes;
  const offset = Math.max(0, sizeBytes - maxBytes);
  for await (const chunk of streams.readChunks(path, { offset, signal })) {
    chunks.push(chunk.subarray(0, left));
    left -= chunk.length;
    if (left <= 0) break;
  }
  return Buffer.concat(chunks);
}
