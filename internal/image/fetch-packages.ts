import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { CommandRunner } from '../exec/index.ts';
import type { FilePort } from '../file/index.ts';
import { ImageError } from './errors.ts';
import type { LockedPackage, PackageLock } from './package-lock.ts';

const MAX_PACKAGE_BYTES = 512 * 2 ** 20;
const DOWNLOAD_MS = 30 * 60_000;

/** What downloads and unpacks packages. */
export interface PackageContext {
  readonly ports: { readonly files: FilePort; readonly commands: CommandRunner };
  readonly paths: {
    /** Below it are the packages of all images. */
    readonly cache: string;
  };
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

/** Where packages come from. */
export interface PackageSources {
  readonly lock: PackageLock;
  /** A directory with package files of the operator; undefined: only the cache and the archive. */
  readonly directory: string | undefined;
}

/**
 * Returns the paths of the pinned packages in the cache. Downloads missing packages from the package sources of this
 * machine. Every file is verified against its hash, each time. @throws ImageError
 */
export async function fetchPackages(
  context: PackageContext,
  { lock, directory }: PackageSources,
): Promise<ReadonlyMap<string, string>> {
  const { files } = context.ports;
  const cache = join(context.paths.cache, 'packages');
  await files.makeDirectory(cache);
  const missing: LockedPackage[] = [];
  for (const each of lock.packages)
    if ((await files.stat(pathOf(cache, each))) === undefined) missing.push(each);
  if (directory !== undefined) await takeFrom(context, { directory, cache, packages: missing });
  else if (missing.length > 0) await download(context, cache, missing);
  for (const each of lock.packages) {
    const path = pathOf(cache, each);
    const bytes = await files.read(path, MAX_PACKAGE_BYTES);
    if (bytes === undefined) throw missingError(each);
    verify(path, bytes, each);
  }
  return new Map(lock.packages.map((each) => [each.name, pathOf(cache, each)]));
}

/** The name in the cache contains the hash: a new version never meets an old file. */
function pathOf(cache: string, { name, sha256 }: LockedPackage): string {
  return join(cache, `${name}_${sha256}.deb`);
}

async function download(
  context: PackageContext,
  cache: string,
  packages: readonly LockedPackage[],
): Promise<void> {
  const { files, commands } = context.ports;
  const directory = join(cache, 'download');
  await files.remove(directory);
  await files.makeDirectory(directory);
  try {
    await commands.run({
      // The sandbox user of apt cannot write to this user's directory.
      argv: [
        ...(['apt-get', '-q', '-o', 'APT::Sandbox::User=', 'download'] as const),
        ...packages.map(({ name, version }) => `${name}=${version}`),
      ],
      cwd: directory,
      env: { PATH: context.env['PATH'] ?? '/usr/bin:/bin', LC_ALL: 'C' },
      timeoutMs: DOWNLOAD_MS,
      signal: context.signal,
    });
    await takeFrom(context, { directory, cache, packages });
  } catch (cause) {
    context.signal.throwIfAborted();
    if (cause instanceof ImageError) throw cause;
    throw new ImageError('image-package-missing', `downloading ${packages.length} packages`, { cause });
  } finally {
    await files.remove(directory);
  }
}

/** Moves packages with the names of the archive into the cache, each after its hash was verified. */
async function takeFrom(
  context: PackageContext,
  from: {
    readonly directory: string;
    readonly cache: string;
    readonly packages: readonly LockedPackage[];
  },
): Promise<void> {
  const { files } = context.ports;
  const names = await files.list(from.directory);
  for (const each of from.packages) {
    const prefix = `${each.name}_${each.version.replaceAll(':', '%3a')}_`;
    const found = names.find((name) => name.startsWith(prefix) && name.endsWith('.deb'));
    if (found === undefined) throw missingError(each);
    const path = join(from.directory, found);
    const bytes = await files.read(path, MAX_PACKAGE_BYTES);
    if (bytes === undefined) throw missingError(each);
    verify(path, bytes, each);
    await files.writeAtomic(pathOf(from.cache, each), bytes, { mode: 0o644 });
  }
}

function verify(path: string, bytes: Uint8Array, { name, version, sha256 }: LockedPackage): void {
  const actual = createHash('sha256').update(bytes).digest('hex');
  if (actual !== sha256)
    throw new ImageError(
      'image-package-damaged',
      `${path}: ${name} ${version} has hash ${actual}, expected ${sha256}`,
    );
}

function missingError({ name, version }: LockedPackage): ImageError {
  return new ImageError('image-package-missing', `package ${name} ${version} not found`);
}
