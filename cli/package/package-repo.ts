import { gzipSync } from 'node:zlib';
import { basename, join } from 'node:path';
import type { CommandContext } from '../app/command.ts';
import { fieldOf, readControl } from './deb-file.ts';
import { PackageError } from './errors.ts';
import { packagesIndex, releaseFile, sha256Of, type PooledPackage } from './repository.ts';
import { exportKey, sign } from './sign.ts';

const MAX_PACKAGE_BYTES = 1024 ** 3;
const KEY_FILE = 'cluster.asc';

/** Options of `cluster package repo`. */
export interface PackageRepoOptions {
  /** The directory of the repository; created if needed. */
  readonly directory: string;
  /** Paths of the packages to add. */
  readonly debs: readonly string[];
  /** The gpg key that signs the repository; undefined: unsigned. */
  readonly key: string | undefined;
}

/**
 * `cluster package repo`: creates a flat apt repository for any web server, or adds packages to it. Older packages are kept. The index is
 * signed first and written last.
 */
export async function runPackageRepo(context: CommandContext, options: PackageRepoOptions): Promise<void> {
  const { host, ports } = context;
  const { directory, debs, key } = options;
  const { files } = ports;
  const pool = join(directory, 'pool');
  const added = await Promise.all(debs.map((path) => readPackage(context, path)));
  const kept = (await files.list(pool)).filter((name) => name.endsWith('.deb'));
  if (added.length === 0 && kept.length === 0)
    throw new PackageError('package-not-found', `no packages for repository ${directory}`);
  await files.makeDirectory(pool, 0o755);
  for (const { name, bytes } of added) await files.writeAtomic(join(pool, name), bytes, { mode: 0o644 });
  const packages = await pooled(context, pool);
  await writeIndex(context, { directory, packages, key });
  const source = sourceLine(key !== undefined);
  if (key === undefined)
    host.warn(
      'package-repo-unsigned',
      'The repository is not signed: machines must trust it unconditionally ([trusted=yes]), and install whatever its web server provides. Sign it with --sign KEY.',
    );
  const listed = packages.map(({ control, path, sha256 }) => {
    return { name: fieldOf(control, 'Package'), version: fieldOf(control, 'Version'), path, sha256 };
  });
  host.result({ directory, source, packages: listed }, () => render(directory, packages, key !== undefined));
}

async function readPackage(
  context: CommandContext,
  path: string,
): Promise<{ name: string; bytes: Uint8Array }> {
  const bytes = await context.ports.files.read(path, MAX_PACKAGE_BYTES);
  if (bytes === undefined) throw new PackageError('package-not-found', `package ${path} not found`);
  const control = await readControl(path, bytes);
  const [name, version, architecture] = ['Package', 'Version', 'Architecture'].map((field) =>
    fieldOf(control, field),
  );
  // The file name follows from the content: the same name means the same package.
  if (![name, version, architecture].every((part) => /^[A-Za-z0-9][A-Za-z0-9.+~:-]*$/.test(part ?? '')))
    throw new PackageError('package-damaged', `reading ${path}: invalid name, version or architecture`);
  return { name: `${name}_${(version ?? '').replace(/^\d+:/, '')}_${architecture}.deb`, bytes };
}

async function pooled({ ports }: CommandContext, pool: string): Promise<readonly PooledPackage[]> {
  const names = (await ports.files.list(pool)).filter((name) => name.endsWith('.deb')).sort();
  const packages: PooledPackage[] = [];
  for (const name of names) {
    const path = join(pool, name);
    const bytes = (await ports.files.read(path, MAX_PACKAGE_BYTES)) ?? new Uint8Array();
    const control = await readControl(path, bytes);
    packages.push({ control, path: `pool/${name}`, sizeBytes: bytes.length, sha256: sha256Of(bytes) });
  }
  return packages;
}

async function writeIndex(
  context: CommandContext,
  what: {
    readonly directory: string;
    readonly packages: readonly PooledPackage[];
    readonly key: string | undefined;
  },
): Promise<void> {
  const { files, clock } = context.ports;
  const { directory, packages, key } = what;
  const index = Buffer.from(packagesIndex(packages));
  const indexes = { Packages: index, 'Packages.gz': gzipSync(index, { level: 9 }) };
  const release = releaseFile(packages, indexes, clock.nowMs());
  const signed: Readonly<Record<string, string | Uint8Array>> =
    key === undefined
      ? {}
      : { [KEY_FILE]: await exportKey(context, key), InRelease: await sign(context, key, release) };
  const write = (name: string, data: string | Uint8Array): Promise<void> =>
    files.writeAtomic(join(directory, name), data, { mode: 0o644 });
  for (const [name, data] of Object.entries({ ...indexes, Release: release, ...signed }))
    await write(name, data);
  // An `InRelease` of an earlier run signs another index, so it is deleted.
  if (key === undefined) await files.remove(join(directory, 'InRelease'));
}

function sourceLine(isSigned: boolean): string {
  const trust = isSigned ? `signed-by=/etc/apt/keyrings/${KEY_FILE}` : 'trusted=yes';
  return `deb [${trust}] https://SERVER/PATH ./`;
}

function render(directory: string, packages: readonly PooledPackage[], isSigned: boolean): string {
  return [
    `Packages in ${directory}: ${packages.length}`,
    ...packages.map(({ path, sha256 }) => `  ${basename(path)}  sha256 ${sha256}`),
    '',
    'Serve the directory with any web server. Then, on each machine, as root:',
    ...(isSigned ? [`  copy ${KEY_FILE} to /etc/apt/keyrings/${KEY_FILE}`] : []),
    `  echo '${sourceLine(isSigned)}' > /etc/apt/sources.list.d/cluster.list`,
    '  apt-get update && apt-get install cluster-agent',
  ].join('\n');
}
