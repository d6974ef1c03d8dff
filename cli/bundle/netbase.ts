import { basename, dirname, join } from 'node:path';
import type { Architecture } from '../../internal/bundle/index.ts';
import type { BundleContext } from './context.ts';
import { BundleMakingError } from './errors.ts';
import { parseElfNeeds } from './elf.ts';
import { NETBASE_PACKAGES } from './recipe.ts';
import { tarFileOf, type TarEntry } from './tar-writer.ts';

const MAX_PROGRAM_BYTES = 64 * 1024 * 1024;
const PROGRAMS = ['usr/sbin/xtables-nft-multi', 'usr/sbin/nft', 'usr/sbin/conntrack', 'bin/ip'] as const;
const IPTABLES = [
  'iptables',
  'iptables-save',
  'iptables-restore',
  'ip6tables',
  'ip6tables-save',
  'ip6tables-restore',
];
const APPLETS = ['cat', 'cp', 'ls', 'mkdir', 'mv', 'sh', 'sleep'];
const TRIPLETS: Readonly<Record<Architecture, string>> = {
  amd64: 'x86_64-linux-gnu',
  arm64: 'aarch64-linux-gnu',
};

/** The layer that kube-proxy and flannel share, and the packages it was taken from. */
export interface Netbase {
  readonly entries: readonly TarEntry[];
  /** `iptables 1.8.9-2, …`: the packages asked for, with versions. */
  readonly source: string;
}

/**
 * Fetches the distribution's packages into `directory` and picks the programs with just the libraries that
 * they load. Nothing of the host's own files goes in, nor is anything of the host changed: apt works on an
 * empty system of its own, with the host's sources and keys, and checks signatures and hashes as always.
 */
export async function makeNetbase(context: BundleContext, folder: string): Promise<Netbase> {
  const packages = await fetchPackages(context, folder);
  const root = join(folder, 'root');
  for (const file of packages) {
    await context.ports.commands.run({
      argv: ['dpkg-deb', '-x', join(folder, 'archives', file), root],
      signal: context.signal,
    });
  }
  const tree = await readTree(context, root);
  return { entries: await layerEntries(context, tree), source: describePackages(packages) };
}

async function fetchPackages(context: BundleContext, folder: string): Promise<readonly string[]> {
  const { files, commands } = context.ports;
  for (const name of ['lists/partial', 'archives/partial', 'root']) {
    await files.makeDirectory(join(folder, name), 0o755);
  }
  await files.writeAtomic(join(folder, 'status'), '', { mode: 0o644 });
  const apt = ['apt-get', '-q', '-y', ...aptOptions(context, folder)];
  const env = { ...proxySettings(context.env), PATH: context.env['PATH'] ?? '/usr/bin:/bin', LC_ALL: 'C' };
  const run = (...args: string[]) =>
    commands.run({ argv: [apt[0] ?? '', ...apt.slice(1), ...args], env, signal: context.signal });
  try {
    await run('update');
    await run('install', '--download-only', '--no-install-recommends', ...NETBASE_PACKAGES);
  } catch (cause) {
    context.signal.throwIfAborted();
    throw new BundleMakingError('bundlebuild-packages', `fetching packages ${NETBASE_PACKAGES.join(', ')}`, {
      cause,
    });
  }
  const archives = await files.list(join(folder, 'archives'));
  return archives.filter((name) => name.endsWith('.deb'));
}

function aptOptions(context: BundleContext, folder: string): readonly string[] {
  const settings = {
    'Dir::State::status': join(folder, 'status'),
    'Dir::State::lists': join(folder, 'lists'),
    'Dir::Cache': folder,
    'Dir::Cache::archives': join(folder, 'archives'),
    'APT::Architecture': context.machine.architecture,
    // Its own sandbox user could not write into this user's directory.
    'APT::Sandbox::User': '',
    'Debug::NoLocking': 'true',
  };
  return Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
}

function proxySettings(env: BundleContext['env']): Record<string, string> {
  const names = ['http_proxy', 'https_proxy', 'no_proxy'];
  return Object.fromEntries(names.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])));
}

/** Every file of the unpacked packages. */
interface Tree {
  readonly root: string;
  /** Path in the tree → the target where it is a symbolic link, or undefined. */
  readonly files: ReadonlyMap<string, string | undefined>;
}

async function readTree(context: BundleContext, root: string): Promise<Tree> {
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

async function layerEntries(context: BundleContext, tree: Tree): Promise<readonly TarEntry[]> {
  const triplet = TRIPLETS[context.machine.architecture];
  const modules = [...tree.files.keys()].filter(
    (path) => dirname(path) === `usr/lib/${triplet}/xtables` && path.endsWith('.so'),
  );
  const loaded = new Map<string, Uint8Array>();
  const picked = new Map<string, Uint8Array>();
  for (const path of [...PROGRAMS, ...modules]) {
    const bytes = await readProgram(context, tree, path);
    picked.set(path, bytes);
    await collectLibraries(context, tree, { of: bytes, triplet, loaded });
  }
  picked.set('bin/busybox', await readProgram(context, tree, 'bin/busybox'));
  return [
    ...['dev', 'etc', 'proc', 'run', 'sys', 'tmp', 'var'].map((path): TarEntry => {
      return { type: 'directory', path, mode: path === 'tmp' ? 0o1777 : 0o755 };
    }),
    ...[...picked, ...loaded].map(([path, bytes]) => tarFileOf(path, bytes, 0o755)),
    ...IPTABLES.map((name) => link(`usr/sbin/${name}`, 'xtables-nft-multi')),
    ...APPLETS.map((name) => link(`bin/${name}`, 'busybox')),
    link(`lib/${triplet}`, `../usr/lib/${triplet}`),
  ];
}

/** Adds what the loader would load: every library once, under the name by which it is asked for. */
async function collectLibraries(
  context: BundleContext,
  tree: Tree,
  work: { readonly of: Uint8Array; readonly triplet: string; readonly loaded: Map<string, Uint8Array> },
): Promise<void> {
  const { interpreter, libraries } = parseElfNeeds(work.of);
  if (interpreter !== undefined) {
    const path = interpreter.slice(1);
    if (!work.loaded.has(path)) work.loaded.set(path, await readProgram(context, tree, path));
  }
  for (const name of libraries) {
    const path = `usr/lib/${work.triplet}/${name}`;
    // The loader itself is named as a library too, and lies where the interpreter's path says.
    if (work.loaded.has(path) || name.startsWith('ld-linux')) continue;
    const bytes = await readProgram(context, tree, path);
    work.loaded.set(path, bytes);
    await collectLibraries(context, tree, { ...work, of: bytes });
  }
}

async function readProgram(context: BundleContext, tree: Tree, path: string): Promise<Uint8Array> {
  const found = resolveInTree(tree, path);
  const bytes =
    found === undefined
      ? undefined
      : await context.ports.files.read(join(tree.root, found), MAX_PROGRAM_BYTES);
  if (bytes !== undefined) return bytes;
  throw new BundleMakingError('bundlebuild-packages', `taking ${path} from packages: none of them brings it`);
}

/**
 * Follows links inside the tree. Where a distribution has merged /bin, /sbin and /lib into /usr, its packages
 * may still ship either name.
 */
function resolveInTree(tree: Tree, path: string, depth = 0): string | undefined {
  const name = [path, `usr/${path}`, path.replace(/^usr\//, '')].find((each) => tree.files.has(each));
  if (name === undefined || depth > 8) return undefined;
  const target = tree.files.get(name);
  if (target === undefined) return name;
  const next = target.startsWith('/') ? target.slice(1) : join(dirname(name), target);
  return resolveInTree(tree, next, depth + 1);
}

function link(path: string, target: string): TarEntry {
  return { type: 'symlink', path, target };
}

/** `busybox-static_1%3a1.35.0-4_amd64.deb` → `busybox-static 1:1.35.0-4`, of the packages asked for. */
function describePackages(archives: readonly string[]): string {
  const all = archives.map((file) => basename(file, '.deb').split('_'));
  return all
    .filter(([name]) => NETBASE_PACKAGES.some((each) => each === name))
    .map(([name = '', version = '']) => `${name} ${version.replaceAll('%3a', ':')}`)
    .join(', ');
}
