import { gunzipSync, zstdDecompressSync } from 'node:zlib';
import { readTar } from './tar-reader.ts';

/** Larger than any layer of an image that Kubernetes ships. */
const MAX_LAYER_BYTES = 1024 ** 3;
const GZIP = Buffer.from([0x1f, 0x8b]);
const ZSTD = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);
/** The offset of `ustar` in the first header of a tar archive. */
const TAR_MAGIC_AT = 257;

/** A regular file in a layer of an image. */
export interface ImageFile {
  readonly path: string;
  readonly bytes: Buffer;
}

/**
 * The regular files of all layers of an image: an OCI layout or the archive of `docker save`. One layer at a time is in memory.
 * @throws TarError for an image that cannot be read
 */
export async function* imageFiles(archive: AsyncIterable<Uint8Array>): AsyncGenerator<ImageFile> {
  for await (const { type, sizeBytes, content } of readTar(archive)) {
    if (type !== 'file' || sizeBytes > MAX_LAYER_BYTES) continue;
    const layer = unpack(Buffer.concat(await Array.fromAsync(content)));
    if (layer.toString('latin1', TAR_MAGIC_AT, TAR_MAGIC_AT + 5) === 'ustar') yield* layerFiles(layer);
  }
}

async function* layerFiles(layer: Buffer): AsyncGenerator<ImageFile> {
  const chunks = async function* (): AsyncGenerator<Uint8Array> {
    yield layer;
  };
  for await (const { path, type, content } of readTar(chunks()))
    if (type === 'file') yield { path, bytes: Buffer.concat(await Array.fromAsync(content)) };
}

function unpack(bytes: Buffer): Buffer {
  const options = { maxOutputLength: MAX_LAYER_BYTES };
  if (startsWith(bytes, GZIP)) return gunzipSync(bytes, options);
  return startsWith(bytes, ZSTD) ? zstdDecompressSync(bytes, options) : bytes;
}

/** Whether these bytes begin with others, which name the format of a file. */
export function startsWith(bytes: Buffer, magic: Buffer): boolean {
  return bytes.subarray(0, magic.length).equals(magic);
}
