import { pipeline } from 'node:stream/promises';
import { extract, type Header } from 'tar-stream';

/** One member of a tar archive. */
export interface TarMember {
  readonly path: string;
  readonly type: 'file' | 'directory' | 'symlink' | 'other';
  readonly mode: number;
  readonly sizeBytes: number;
  /** The target of a symbolic link; empty for all others. */
  readonly target: string;
  /** The caller must read the content completely before it requests the next member, or not at all. */
  readonly content: AsyncIterable<Uint8Array>;
}

/** The bytes are no tar archive or cannot be read. */
export class TarError extends Error {
  override readonly name = 'TarError';

  constructor(cause: unknown) {
    super('reading tar archive', { cause });
  }
}

/**
 * The members of a tar archive (ustar, pax, GNU long names), one after the other. Reads `chunks` to their end, because the end of
 * a compressed archive has its checksum.
 * @throws TarError
 */
export async function* readTar(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<TarMember> {
  const members = extract();
  const failure = pipeline(chunks, members).then(
    () => undefined,
    (error: unknown) => error,
  );
  try {
    for await (const member of members) {
      const { name: path, type, mode, size: sizeBytes, linkname } = member.header;
      const content = contentOf(member as AsyncIterable<Uint8Array>, failure);
      yield { path, type: memberType(type), mode, sizeBytes, target: linkname ?? '', content };
      if (members.destroyed) break; // the caller stopped reading before the end of the content
      member.resume();
    }
  } catch (error) {
    throw new TarError((await failure) ?? error);
  } finally {
    members.destroy();
  }
  const error = await failure;
  if (error !== undefined) throw new TarError(error);
}

async function* contentOf(
  member: AsyncIterable<Uint8Array>,
  failure: Promise<unknown>,
): AsyncGenerator<Uint8Array> {
  try {
    yield* member;
  } catch (error) {
    throw new TarError((await failure) ?? error);
  }
}

function memberType(type: Header['type']): TarMember['type'] {
  return type === 'file' || type === 'directory' || type === 'symlink' ? type : 'other';
}
