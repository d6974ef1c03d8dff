import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { BuildContext } from '../build-context.ts';
import { BundleBuildError } from '../errors.ts';
import { checkReachable, downloadFile, showBytes, type PartialFile } from './download-blob.ts';
import type { PinnedRelease } from './pinned-releases.ts';
import { unpackPrograms } from './unpack-programs.ts';

/**
 * A size limit, so that a server cannot fill the disk. The largest release, the server programs of Kubernetes, has less
 * than half of this size.
 */
const MAX_RELEASE_BYTES = 1024 ** 3;

/** The programs of the releases that were downloaded. */
export interface ReleasedPrograms {
  /** Program → path of its file in the work directory. */
  readonly programs: ReadonlyMap<string, string>;
  /** Releases that could not be downloaded, and why. */
  readonly missed: readonly { readonly release: PinnedRelease; readonly error: BundleBuildError }[];
}

/**
 * Downloads releases one after the other, checks each against its pinned hash, and unpacks its programs to files in
 * `directory`. If a release cannot be downloaded, the result names it; no error is thrown. An interrupted download is
 * resumed by the next run.
 */
export async function downloadReleases(
  context: BuildContext,
  directory: string,
  releases: readonly PinnedRelease[],
): Promise<ReleasedPrograms> {
  const programs = new Map<string, string>();
  const missed: { release: PinnedRelease; error: BundleBuildError }[] = [];
  const silent = await findSilentHosts(context, releases);
  for (const [index, release] of releases.entries()) {
    try {
      const error = silent.get(new URL(release.url).host);
      if (error !== undefined) throw error;
      const title = `Downloading ${release.name} (${index + 1} of ${releases.length})`;
      await context.reporter.step('bundle-release', title, async (progress) => {
        await downloadFile(context, release.url, partialFile(context, release), showBytes(progress));
        await checkHash(context, release);
        for (const [name, path] of await unpack(context, directory, release)) programs.set(name, path);
      });
    } catch (error) {
      context.signal.throwIfAborted();
      if (!(error instanceof BundleBuildError)) throw error;
      missed.push({ release, error });
    }
  }
  return { programs, missed };
}

/** Removes the downloaded files, when their programs are part of components. */
export async function removeDownloads(
  context: BuildContext,
  releases: readonly PinnedRelease[],
): Promise<void> {
  for (const release of releases) await context.ports.files.remove(pathOf(context, release));
}

/**
 * Asks each host once. Otherwise, on a network that drops packets, the download of each file would wait for minutes.
 */
async function findSilentHosts(
  context: BuildContext,
  releases: readonly PinnedRelease[],
): Promise<ReadonlyMap<string, BundleBuildError>> {
  const first = new Map<string, string>();
  for (const { url } of releases) {
    const { host } = new URL(url);
    if (!first.has(host)) first.set(host, url);
  }
  const silent = new Map<string, BundleBuildError>();
  await Promise.all(
    [...first].map(async ([host, url]) => {
      try {
        await checkReachable(context, url);
      } catch (error) {
        if (!(error instanceof BundleBuildError)) throw error;
        silent.set(host, error);
      }
    }),
  );
  return silent;
}

/** A file is named by its hash, so that a run finds the file that an earlier run has downloaded. */
function pathOf({ cache }: BuildContext, { hash }: PinnedRelease): string {
  return join(cache, 'downloads', hash.slice(0, 64));
}

function partialFile(context: BuildContext, release: PinnedRelease): PartialFile {
  const { files, streams } = context.ports;
  const path = pathOf(context, release);
  return {
    sizeBytes: async () => (await files.stat(path))?.sizeBytes ?? 0,
    discard: () => files.remove(path),
    append: async (offset, bytes) => {
      const end = offset + bytes.length;
      if (end > MAX_RELEASE_BYTES) {
        await files.remove(path);
        const message = `downloading ${release.url}: more than ${MAX_RELEASE_BYTES} bytes`;
        throw new BundleBuildError('bundlebuild-download', message, { retryable: false });
      }
      if (offset === 0) await files.makeDirectory(join(context.cache, 'downloads'));
      await streams.writeAt(path, offset, bytes);
      return end;
    },
  };
}

/** No other code reads the file before this check. A file with another hash is removed. */
async function checkHash(context: BuildContext, release: PinnedRelease): Promise<void> {
  const path = pathOf(context, release);
  if ((await context.ports.files.stat(path)) === undefined) {
    throw new BundleBuildError('bundlebuild-download', `downloading ${release.url}: the file is empty`);
  }
  const algorithm = release.hash.length === 128 ? 'sha512' : 'sha256';
  const hash = createHash(algorithm);
  for await (const chunk of context.ports.streams.readChunks(path, context)) hash.update(chunk);
  const found = hash.digest('hex');
  if (found === release.hash) return;
  await context.ports.files.remove(path);
  throw new BundleBuildError(
    'bundlebuild-checksum',
    `downloading ${release.url}: the file has ${algorithm} ${found}, pinned is ${release.hash}`,
  );
}

async function unpack(
  context: BuildContext,
  directory: string,
  release: PinnedRelease,
): Promise<ReadonlyMap<string, string>> {
  const { streams, files } = context.ports;
  const { content, url } = release;
  await files.makeDirectory(directory);
  const keep = async (program: string, bytes: AsyncIterable<Uint8Array>): Promise<string> => {
    const path = join(directory, program);
    let offset = 0;
    for await (const chunk of bytes) {
      await streams.writeAt(path, offset, chunk);
      offset += chunk.length;
    }
    return path;
  };
  const packed = streams.readChunks(pathOf(context, release), context);
  if (content.kind === 'archive') {
    return unpackPrograms(context, { url, packed, members: content.members, keep });
  }
  return new Map([[content.program, await keep(content.program, packed)]]);
}
