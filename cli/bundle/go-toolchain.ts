import { createHash, randomUUID } from 'node:crypto';
import { basename, dirname, join } from 'node:path';
import { GO_TOOLCHAIN, type Architecture } from '../../internal/bundle/index.ts';
import type { StepProgress } from '../host/index.ts';
import type { BundleContext } from './context.ts';
import { BundleMakingError } from './errors.ts';
import { readZip, type ZipFile } from './zip.ts';

const MAX_ZIP_BYTES = 256 * 1024 * 1024;

/**
 * Answers the GOROOT of the one toolchain that makes bundles, bringing it first where it is not there.
 * The machine's own Go is never used: another version, or a distribution's patches, would make other bytes.
 * @throws BundleMakingError `bundlebuild-toolchain`, `bundlebuild-download`
 */
export async function ensureToolchain(context: BundleContext, progress: StepProgress): Promise<string> {
  const { files } = context.ports;
  const { architecture } = context.machine;
  const goroot = join(context.cache, 'go', 'toolchain', moduleVersion(architecture));
  // The directory appears by a rename when all of it was checked and written.
  if ((await files.stat(goroot))?.kind === 'directory') return goroot;
  const archive = await download(context, architecture, progress);
  progress.update('checking and unpacking');
  await installToolchain(context, archive, { goroot, hash: GO_TOOLCHAIN.hashes[architecture] });
  return goroot;
}

/** Unpacks the module zip of a toolchain when its hash is the one that is locked. */
export async function installToolchain(
  context: Pick<BundleContext, 'ports' | 'signal'>,
  archive: Uint8Array,
  to: { readonly goroot: string; readonly hash: string },
): Promise<void> {
  // Two passes over the archive instead of all its content in memory at once.
  const hash = hash1(readZip(archive));
  if (hash !== to.hash) {
    const message = `checking Go toolchain ${basename(to.goroot)}: ${hash}, ${to.hash} is locked`;
    throw new BundleMakingError('bundlebuild-toolchain', message);
  }
  await unpack(context, readZip(archive), to.goroot);
}

/** dirhash.Hash1 of golang.org/x/mod: the hash of the sorted list of the files' hashes. */
export function hash1(files: Iterable<ZipFile>): string {
  const hashed = Array.from(files, ({ path, bytes }) => ({
    path: Buffer.from(path),
    line: `${createHash('sha256').update(bytes).digest('hex')}  ${path}\n`,
  }));
  const lines = hashed.sort((a, b) => Buffer.compare(a.path, b.path)).map((each) => each.line);
  return `h1:${createHash('sha256').update(lines.join('')).digest('base64')}`;
}

/** The first proxy of GOPROXY that is an address; Go's own default when there is none. */
export function moduleProxy(goproxy: string | undefined): string {
  const first = (goproxy ?? '').split(/[,|]/).find((each) => /^https?:\/\//.test(each));
  return (first ?? 'https://proxy.golang.org').replace(/\/+$/, '');
}

function moduleVersion(architecture: Architecture): string {
  return `v0.0.1-go${GO_TOOLCHAIN.version}.linux-${architecture}`;
}

async function download(
  context: BundleContext,
  architecture: Architecture,
  progress: StepProgress,
): Promise<Uint8Array> {
  const proxy = moduleProxy(context.env['GOPROXY']);
  const url = `${proxy}/golang.org/toolchain/@v/${moduleVersion(architecture)}.zip`;
  const answer = await context.ports.http.get(url, { signal: context.signal });
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const chunk of answer?.body ?? []) {
    chunks.push(chunk);
    sizeBytes += chunk.length;
    if (sizeBytes > MAX_ZIP_BYTES) {
      throw new BundleMakingError(
        'bundlebuild-toolchain',
        `fetching ${url}: more than ${MAX_ZIP_BYTES} bytes`,
      );
    }
    progress.update(`${(sizeBytes / 1e6).toFixed(0)} MB`);
  }
  return Buffer.concat(chunks);
}

async function unpack(
  context: Pick<BundleContext, 'ports' | 'signal'>,
  all: Iterable<ZipFile>,
  goroot: string,
): Promise<void> {
  const { files, streams, commands } = context.ports;
  const incoming = join(dirname(goroot), `.incoming-${randomUUID()}`);
  const prefix = `golang.org/toolchain@${basename(goroot)}/`;
  try {
    const folders = new Set<string>();
    for (const file of all) {
      context.signal.throwIfAborted();
      const path = join(incoming, pathInToolchain(file.path, prefix));
      if (!folders.has(dirname(path))) await files.makeDirectory(dirname(path), 0o755);
      folders.add(dirname(path));
      await streams.writeAt(path, 0, file.bytes);
    }
    // Module zips carry no modes; cmd/go makes the same directories executable when it unpacks one.
    const programs = ['bin', 'pkg/tool'].map((folder) => join(incoming, folder));
    await commands.run({ argv: ['chmod', '-R', 'u+x', ...programs], signal: context.signal });
    await files.rename(incoming, goroot);
  } catch (error) {
    await files.remove(incoming);
    // Another process may have been faster; what it checked is what we checked.
    if ((await files.stat(goroot))?.kind === 'directory') return;
    throw error;
  }
}

/** Strips the module's own directory; `_go.mod` stands for a go.mod that must not end the module. */
function pathInToolchain(path: string, prefix: string): string {
  const inside = path.startsWith(prefix) ? path.slice(prefix.length) : '';
  if (inside === '' || inside.split('/').some((part) => part === '..' || part === '')) {
    throw new BundleMakingError(
      'bundlebuild-toolchain',
      `unpacking Go: ${JSON.stringify(path)} is outside of it`,
    );
  }
  return inside.replace(/(^|\/)_go\.mod$/, '$1go.mod');
}
