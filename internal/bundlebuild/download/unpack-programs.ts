import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { readTar } from '../archive/tar-reader.ts';
import type { BuildContext } from '../build-context.ts';
import { BundleBuildError } from '../errors.ts';

/** A tar.gz file whose hash was checked. */
export interface PackedPrograms {
  /** For messages. */
  readonly url: string;
  readonly packed: AsyncIterable<Uint8Array>;
  /** Program → path of its member. */
  readonly members: Readonly<Record<string, string>>;
  /** Writes the bytes of a program to a file and returns its path. */
  readonly keep: (program: string, content: AsyncIterable<Uint8Array>) => Promise<string>;
}

/**
 * Unpacks the programs of an archive. Returns the path of each program.
 * @throws BundleBuildError `bundlebuild-archive`
 */
export async function unpackPrograms(
  context: Pick<BuildContext, 'signal'>,
  { url, packed, members, keep }: PackedPrograms,
): Promise<ReadonlyMap<string, string>> {
  const wanted = new Map(Object.entries(members).map(([program, path]) => [normalized(path), program]));
  const found = new Map<string, string>();
  try {
    // pipeline() destroys every stream when one of them fails; pipe() would leave the file open.
    await pipeline(packed, createGunzip(), async (unpacked: AsyncIterable<Uint8Array>) => {
      for await (const member of readTar(unpacked)) {
        const program = wanted.get(normalized(member.path));
        if (program === undefined || member.type !== 'file') continue;
        found.set(program, await keep(program, member.content));
      }
    });
  } catch (cause) {
    context.signal.throwIfAborted();
    throw new BundleBuildError('bundlebuild-archive', `unpacking ${url}`, { cause });
  }
  const missing = [...wanted.values()].filter((program) => !found.has(program));
  if (missing.length === 0) return found;
  throw new BundleBuildError('bundlebuild-archive', `unpacking ${url}: no ${missing.join(', ')} in it`);
}

function normalized(path: string): string {
  return path.replace(/^\.\//, '');
}
