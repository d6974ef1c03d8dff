import { inflateRawSync } from 'node:zlib';

const END_OF_DIRECTORY = 0x06054b50;
const DIRECTORY_ENTRY = 0x02014b50;
const LOCAL_ENTRY = 0x04034b50;
const END_BYTES = 22;
const STORED = 0;
const DEFLATED = 8;

/** One file of a zip archive. */
export interface ZipFile {
  readonly path: string;
  readonly bytes: Uint8Array;
}

/**
 * The files of a zip archive, one at a time (APPNOTE 6.3.10; no zip64, no encryption: Go module zips
 * have neither). Every field may be hostile: offsets are checked by `Buffer` itself, lengths against
 * what the directory announced.
 * @throws ZipError
 */
export function* readZip(archive: Uint8Array): Generator<ZipFile> {
  const bytes = Buffer.from(archive.buffer, archive.byteOffset, archive.byteLength);
  const end = findEnd(bytes);
  const count = bytes.readUInt16LE(end + 10);
  let at = bytes.readUInt32LE(end + 16);
  for (let index = 0; index < count; index++) {
    const entry = readEntry(bytes, at);
    if (!entry.path.endsWith('/')) yield { path: entry.path, bytes: contentOf(bytes, entry) };
    at = entry.next;
  }
}

/** An archive that is not one. */
export class ZipError extends Error {
  override readonly name = 'ZipError';

  constructor(why: string, cause?: unknown) {
    super(`reading a zip archive: ${why}`, { cause });
  }
}

interface Entry {
  readonly path: string;
  readonly method: number;
  readonly packedBytes: number;
  readonly sizeBytes: number;
  readonly localAt: number;
  readonly next: number;
}

function findEnd(bytes: Buffer): number {
  // A comment of up to 65,535 bytes may follow the record.
  for (let at = bytes.length - END_BYTES; at >= Math.max(0, bytes.length - END_BYTES - 0xffff); at--) {
    if (bytes.readUInt32LE(at) === END_OF_DIRECTORY) return at;
  }
  throw new ZipError('it has no directory; it may be cut');
}

function readEntry(bytes: Buffer, at: number): Entry {
  return bounded(() => {
    if (bytes.readUInt32LE(at) !== DIRECTORY_ENTRY) throw new ZipError('its directory is damaged');
    const nameBytes = bytes.readUInt16LE(at + 28);
    const path = bytes.toString('utf8', at + 46, at + 46 + nameBytes);
    return {
      path,
      method: bytes.readUInt16LE(at + 10),
      packedBytes: bytes.readUInt32LE(at + 20),
      sizeBytes: bytes.readUInt32LE(at + 24),
      localAt: bytes.readUInt32LE(at + 42),
      next: at + 46 + nameBytes + bytes.readUInt16LE(at + 30) + bytes.readUInt16LE(at + 32),
    };
  });
}

function contentOf(bytes: Buffer, entry: Entry): Uint8Array {
  return bounded(() => {
    const { localAt, packedBytes, sizeBytes } = entry;
    if (bytes.readUInt32LE(localAt) !== LOCAL_ENTRY) throw new ZipError(`${entry.path}: no content`);
    const start = localAt + 30 + bytes.readUInt16LE(localAt + 26) + bytes.readUInt16LE(localAt + 28);
    const packed = bytes.subarray(start, start + packedBytes);
    if (packed.length !== packedBytes) throw new ZipError(`${entry.path}: cut`);
    if (entry.method !== STORED && entry.method !== DEFLATED) {
      throw new ZipError(`${entry.path}: compression method ${entry.method}`);
    }
    const content =
      entry.method === STORED ? packed : inflateRawSync(packed, { maxOutputLength: Math.max(1, sizeBytes) });
    if (content.length !== sizeBytes)
      throw new ZipError(`${entry.path}: ${content.length} bytes, ${sizeBytes} announced`);
    return content;
  });
}

/** Reads outside the archive and broken compression are one thing to the caller: not a zip. */
function bounded<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw error instanceof ZipError ? error : new ZipError('it is damaged', error);
  }
}
