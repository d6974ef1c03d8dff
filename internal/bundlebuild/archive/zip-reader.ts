import { fromBufferPromise, type Entry, type ZipFile } from 'yauzl';

/** One file of a zip archive. */
export interface ZipMember {
  /** Relative, and without `..`: the reader refuses all others. */
  readonly path: string;
  readonly content: AsyncIterable<Uint8Array>;
}

/** The bytes are not a zip archive, or are a hostile zip archive. */
export class ZipError extends Error {
  override readonly name = 'ZipError';

  constructor(cause: unknown) {
    super('reading zip archive', { cause });
  }
}

/**
 * The files of a zip archive, one after the other. Every field may be hostile: the reader refuses paths that leave the
 * archive, offsets outside of it, and content that is longer than the central directory of the archive states.
 * @throws ZipError
 */
export async function* readZip(archive: Uint8Array): AsyncGenerator<ZipMember> {
  const bytes = Buffer.from(archive.buffer, archive.byteOffset, archive.byteLength);
  const zip = await fromBufferPromise(bytes).catch(fail);
  const entries = zip.eachEntry();
  for (;;) {
    const next = await entries.next().catch(fail);
    if (next.done === true) return;
    const entry = next.value;
    if (!entry.fileName.endsWith('/')) yield { path: entry.fileName, content: contentOf(zip, entry) };
  }
}

async function* contentOf(zip: ZipFile, entry: Entry): AsyncGenerator<Uint8Array> {
  try {
    yield* await zip.openReadStreamPromise(entry);
  } catch (error) {
    fail(error);
  }
}

function fail(error: unknown): never {
  throw new ZipError(error);
}
