import { u32 } from '../crypto/index.ts';
import type { ByteReader } from './byte-reader.ts';

const MAX_FRAME_BYTES = 1024 * 1024;

/**
 * Writes a stream of unknown length: each frame is its length (u32) and its bytes; a frame of length 0 ends the stream.
 */
export async function* frames(
  content: AsyncIterable<Uint8Array>,
  onData: (data: Uint8Array) => void,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of content)
    for (let from = 0; from < chunk.length; from += MAX_FRAME_BYTES) {
      const data = chunk.subarray(from, from + MAX_FRAME_BYTES);
      onData(data);
      yield u32(data.length);
      yield data;
    }
  yield u32(0);
}

/** Reads frames up to their end. */
export async function* readFrames(
  reader: ByteReader,
  invalid: (why: string) => Error,
): AsyncGenerator<Uint8Array> {
  for (;;) {
    const length = await reader.takeU32();
    if (length === 0) return;
    if (length > MAX_FRAME_BYTES)
      throw invalid(`a frame of ${length} bytes, at most ${MAX_FRAME_BYTES} allowed`);
    yield await reader.take(length);
  }
}
