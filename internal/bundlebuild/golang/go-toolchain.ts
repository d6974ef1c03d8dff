import { createHash, randomUUID } from 'node:crypto';
import { basename, dirname, join } from 'node:path';
import { GO_TOOLCHAIN, type Architecture } from '../../bundle/index.ts';
import type { StreamPort } from '../../file/index.ts';
import { formatBytes } from '../../printable/index.ts';
import { readZip, ZipError, type ZipMember } from '../archive/zip-reader.ts';
import type { BuildContext, BuildProgress } from '../build-context.ts';
import { BundleBuildError } from '../errors.ts';

const MAX_ZIP_BYTES = 256 * 1024 * 1024;

/**
 * Returns the GOROOT of the one toolchain that builds bundles, and downloads it first when it is not in the cache. The Go of the
 * machine is never used: another version, or a patch of the distribution, would give other bytes.
 * @throws BundleBuildError `bundlebuild-toolchain`, `bundlebuild-download`
 */
export async function ensureToolchain(context: BuildContext, progress: BuildProgress): Promise<string> {
  const { architecture } = context.machine;
  const goroot = join(context.cache, 'go', 'toolchain', moduleVersion(architecture));
  // The directory is renamed into place after all files were checked and written. So an existing directory is complete.
  if ((await context.ports.files.stat(goroot))?.kind === 'directory') return goroot;
  const archive = await download(context, architecture, progress);
  progress.update('checking and unpacking');
  await installToolchain(context, archive, { goroot, hash: GO_TOOLCHAIN.hashes[architecture] });
  return goroot;
}

/**
 * Unpacks the module zip of a toolchain if it has the pinned hash (see `goModuleHash`).
 * @throws BundleBuildError `bundlebuild-toolchain`
 */
export async function installToolchain(
  context: Pick<BuildContext, 'ports' | 'signal'>,
  archive: Uint8Array,
  to: { readonly goroot: string; readonly hash: string },
): Promise<void> {
  const name = basename(to.goroot);
  try {
    // The archive is read twice, so that its whole content is never in memory.
    const hash = await goModuleHash(readZip(archive));
    if (hash !== to.hash) {
      const message = `checking Go toolchain ${name}: its hash is ${hash}, expected ${to.hash}`;
      throw new BundleBuildError('bundlebuild-toolchain', message);
    }
    await unpack(context, readZip(archive), to.goroot);
  } catch (cause) {
    if (!(cause instanceof ZipError)) throw cause;
    throw new BundleBuildError('bundlebuild-toolchain', `unpacking Go toolchain ${name}`, { cause });
  }
}

/** The `h1:` hash of a module: dirhash.Hash1 of golang.org/x/mod, a hash of the sorted list of the hashes of all files. */
export async function goModuleHash(members: AsyncIterable<ZipMember>): Promise<string> {
  const files: { readonly path: Buffer; readonly line: string }[] = [];
  for await (const { path, content } of members) {
    const hash = createHash('sha256');
    for await (const chunk of content) hash.update(chunk);
    files.push({ path: Buffer.from(path), line: `${hash.digest('hex')}  ${path}\n` });
  }
  const lines = files.sort((a, b) => Buffer.compare(a.path, b.path)).map(({ line }) => line);
  return `h1:${createHash('sha256').update(lines.join('')).digest('base64')}`;
}

/** The first URL of GOPROXY, or Go's own default. */
export function moduleProxy(goproxy: string | undefined): string {
  const first = (goproxy ?? '').split(/[,|]/).find((entry) => /^https?:\/\//.test(entry));
  return (first ?? 'https://proxy.golang.org').replace(/\/+$/, '');
}

function moduleVersion(architecture: Architecture): string {
  return `v0.0.1-go${GO_TOOLCHAIN.version}.linux-${architecture}`;
}

async function download(
  context: BuildContext,
  architecture: Architecture,
  progress: BuildProgress,
): Promise<Uint8Array> {
  const proxy = moduleProxy(context.env['GOPROXY']);
  const url = `${proxy}/golang.org/toolchain/@v/${moduleVersion(architecture)}.zip`;
  const response = await context.ports.http.get(url, { signal: context.signal });
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const chunk of response?.body ?? []) {
    chunks.push(chunk);
    sizeBytes += chunk.length;
    if (sizeBytes > MAX_ZIP_BYTES) {
      const message = `downloading ${url}: more than ${MAX_ZIP_BYTES} bytes`;
      throw new BundleBuildError('bundlebuild-toolchain', message);
    }
    progress.update(formatBytes(sizeBytes));
  }
  return Buffer.concat(chunks);
}

async function unpack(
  context: Pick<BuildContext, 'ports' | 'signal'>,
  members: AsyncIterable<ZipMember>,
  goroot: string,
): Promise<void> {
  const { files, streams, commands } = context.ports;
  const incoming = join(dirname(goroot), `.incoming-${randomUUID()}`);
  const prefix = `golang.org/toolchain@${basename(goroot)}/`;
  try {
    const directories = new Set<string>();
    for await (const member of members) {
      context.signal.throwIfAborted();
      const path = join(incoming, pathInToolchain(member.path, prefix));
      if (!directories.has(dirname(path))) await files.makeDirectory(dirname(path), 0o755);
      directories.add(dirname(path));
      await writeContent(streams, path, member.content);
    }
    // Module zips have no file modes; the go command makes the files of the same directories executable when it unpacks
    // a toolchain.
    const programs = ['bin', 'pkg/tool'].map((directory) => join(incoming, directory));
    await commands.run({ argv: ['chmod', '-R', 'u+x', ...programs], signal: context.signal });
    await files.rename(incoming, goroot);
  } catch (error) {
    await files.remove(incoming);
    // Another process may have unpacked the same toolchain meanwhile.
    if ((await files.stat(goroot))?.kind === 'directory') return;
    throw error;
  }
}

async function writeContent(
  streams: StreamPort,
  path: string,
  content: AsyncIterable<Uint8Array>,
): Promise<void> {
  let offset = 0;
  for await (const chunk of content) {
    await streams.writeAt(path, offset, chunk);
    offset += chunk.length;
  }
  if (offset === 0) await streams.writeAt(path, 0, new Uint8Array()); // creates an empty file
}

/**
 * Strips the module's own directory, and renames `_go.mod` to go.mod. A module zip cannot contain a go.mod
 * in a subdirectory, because that file would start another module.
 */
function pathInToolchain(path: string, prefix: string): string {
  if (!path.startsWith(prefix))
    throw new BundleBuildError(
      'bundlebuild-toolchain',
      `unpacking Go: unexpected path ${JSON.stringify(path)}`,
    );
  return path.slice(prefix.length).replace(/(^|\/)_go\.mod$/, '$1go.mod');
}
