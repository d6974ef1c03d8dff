import { dirname, join } from 'node:path';
import type { Architecture } from '../../bundle/index.ts';
import { tarFileOf, type TarEntry } from '../archive/tar-writer.ts';
import type { BuildContext } from '../build-context.ts';
import { BundleBuildError } from '../errors.ts';
import { NETWORK_TOOL_PACKAGES } from '../recipes/recipe.ts';
import { readPackageRecords, unpackPackages, type PackageRecord } from './debian-packages.ts';
import { parseElfNeeds } from './parse-elf.ts';

const MAX_PROGRAM_BYTES = 64 * 1024 * 1024;
const MAX_LINKS = 8;
const PROGRAMS = ['usr/sbin/xtables-nft-multi', 'usr/sbin/nft', 'usr/sbin/conntrack', 'bin/ip'] as const;
const IPTABLES_LINKS = ['iptables', 'ip6tables'].flatMap((name) => [name, `${name}-save`, `${name}-restore`]);
const BUSYBOX_LINKS = ['cat', 'cp', 'ls', 'mkdir', 'mv', 'sh', 'sleep'];
const TRIPLETS: Readonly<Record<Architecture, string>> = {
  amd64: 'x86_64-linux-gnu',
  arm64: 'aarch64-linux-gnu',
};

/** The layer with the network tools, which kube-proxy and flannel share. */
export interface NetworkTools {
  readonly entries: readonly TarEntry[];
  /** The Debian packages with their versions: `iptables 1.8.9-2, …`. */
  readonly source: string;
}

/**
 * Downloads the Debian packages of the network tools into `directory`, and extracts the programs with
 * exactly the libraries that they load. @throws BundleBuildError `bundlebuild-packages`
 */
export async function readNetworkTools(context: BuildContext, directory: string): Promise<NetworkTools> {
  const { root, archives, source } = await unpackPackages(context, directory, NETWORK_TOOL_PACKAGES);
  const tree = await listFiles(context, root);
  const entries = await layerEntries(context, tree);
  const records = await readPackageRecords(context, archives);
  return { entries: [...entries, ...statusFiles(entries, records)], source };
}

/**
 * A file of /var/lib/dpkg/status.d for each package of which the layer has a file: where scanners of images look for the packages
 * of an image without dpkg.
 */
function statusFiles(entries: readonly TarEntry[], records: readonly PackageRecord[]): readonly TarEntry[] {
  const paths = new Set(entries.flatMap(({ type, path }) => (type === 'file' ? spellings(path) : [])));
  return records
    .filter(({ files }) => [...files].some((file) => paths.has(file)))
    .map(({ name, control }) => tarFileOf(`var/lib/dpkg/status.d/${name}`, control));
}

/** The files of the unpacked packages. */
interface FileTree {
  readonly root: string;
  /** Path below the root → target of the symbolic link; undefined for a regular file. */
  readonly files: ReadonlyMap<string, string | undefined>;
}

async function listFiles(context: BuildContext, root: string): Promise<FileTree> {
  const { stdout } = await context.ports.commands.run({
    argv: ['find', root, '(', '-type', 'f', '-o', '-type', 'l', ')', '-printf', '%P\\t%l\\n'],
    signal: context.signal,
  });
  const lines = stdout.split('\n').filter((line) => line !== '');
  const files = lines.map((line): [string, string | undefined] => {
    const [path = '', target = ''] = line.split('\t');
    return [path, target === '' ? undefined : target];
  });
  return { root, files: new Map(files) };
}

async function layerEntries(context: BuildContext, tree: FileTree): Promise<readonly TarEntry[]> {
  const triplet = TRIPLETS[context.machine.architecture];
  const extensions = [...tree.files.keys()].filter(
    (path) => dirname(path) === `usr/lib/${triplet}/xtables` && path.endsWith('.so'),
  );
  const files = new Map<string, Uint8Array>();
  for (const path of [...PROGRAMS, ...extensions])
    await addWithLibraries(context, tree, { path, triplet, files });
  files.set('bin/busybox', await readFile(context, tree, 'bin/busybox'));
  return [
    ...['dev', 'etc', 'proc', 'run', 'sys', 'tmp', 'var'].map((path): TarEntry => {
      return { type: 'directory', path, mode: path === 'tmp' ? 0o1777 : 0o755 };
    }),
    ...[...files].map(([path, bytes]) => tarFileOf(path, bytes, 0o755)),
    ...IPTABLES_LINKS.map((name) => link(`usr/sbin/${name}`, 'xtables-nft-multi')),
    ...BUSYBOX_LINKS.map((name) => link(`bin/${name}`, 'busybox')),
    link(`lib/${triplet}`, `../usr/lib/${triplet}`),
  ];
}

/** Adds a program or library, and recursively everything that the dynamic loader loads for it. */
async function addWithLibraries(
  context: BuildContext,
  tree: FileTree,
  add: { readonly path: string; readonly triplet: string; readonly files: Map<string, Uint8Array> },
): Promise<void> {
  const { path, triplet, files } = add;
  if (files.has(path)) return;
  const bytes = await readFile(context, tree, path);
  files.set(path, bytes);
  const { interpreter, libraries } = parseElfNeeds(bytes);
  const loader = interpreter?.slice(1);
  if (loader !== undefined && !files.has(loader)) files.set(loader, await readFile(context, tree, loader));
  for (const name of libraries) {
    // The dynamic loader is listed as a library too. It is already added under the path of the interpreter.
    if (name.startsWith('ld-linux')) continue;
    await addWithLibraries(context, tree, { ...add, path: `usr/lib/${triplet}/${name}` });
  }
}

async function readFile(context: BuildContext, tree: FileTree, path: string): Promise<Uint8Array> {
  const found = resolveInTree(tree, path);
  if (found !== undefined) {
    const bytes = await context.ports.files.read(join(tree.root, found), MAX_PROGRAM_BYTES);
    if (bytes !== undefined) return bytes;
  }
  throw new BundleBuildError('bundlebuild-packages', `${path} not found in the downloaded packages`);
}

/** Follows links inside the tree. */
function resolveInTree(tree: FileTree, path: string, depth = 0): string | undefined {
  const found = spellings(path).find((name) => tree.files.has(name));
  if (found === undefined || depth > MAX_LINKS) return undefined;
  const target = tree.files.get(found);
  if (target === undefined) return found;
  const next = target.startsWith('/') ? target.slice(1) : join(dirname(found), target);
  return resolveInTree(tree, next, depth + 1);
}

/** On distributions that have merged /bin, /sbin and /lib into /usr, packages may still contain either path. */
function spellings(path: string): readonly string[] {
  return [path, `usr/${path}`, path.replace(/^usr\//, '')];
}

function link(path: string, target: string): TarEntry {
  return { type: 'symlink', path, target };
}
