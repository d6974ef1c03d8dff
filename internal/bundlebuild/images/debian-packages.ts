import { basename, join } from 'node:path';
import type { BuildContext } from '../build-context.ts';
import { BundleBuildError } from '../errors.ts';

/** A line of `dpkg-deb -c` for a file or link: `-rwxr-xr-x root/root 1234 2026-01-01 00:00 ./usr/sbin/nft`. */
const CONTENT = /^[-lh]\S+ +\S+ +\d+ +\S+ +\S+ +\.\/(.+?)(?: -> .*| link to .*)?$/;

/** Debian packages that are unpacked, with everything they depend on. */
export interface UnpackedPackages {
  readonly root: string;
  /** Absolute paths of all packages, dependencies included. */
  readonly archives: readonly string[];
  /** The requested packages with their versions: `iptables 1.8.9-2, …`. */
  readonly source: string;
}

/**
 * Downloads Debian packages and those that they depend on into `directory`, and unpacks them there. Runs none of their scripts.
 * Neither reads nor changes the installed packages of this machine: apt works on an empty system with the sources and keys of
 * this machine, and verifies signatures and hashes as usual.
 * @throws BundleBuildError `bundlebuild-packages`
 */
export async function unpackPackages(
  context: BuildContext,
  directory: string,
  packages: readonly string[],
): Promise<UnpackedPackages> {
  const names = await downloadPackages(context, directory, packages);
  const archives = names.map((name) => join(directory, 'archives', name));
  const root = join(directory, 'root');
  for (const file of archives) {
    const argv = ['dpkg-deb', '-x', file, root] as const;
    await context.ports.commands.run({ argv, signal: context.signal });
  }
  return { root, archives, source: describePackages(names, packages) };
}

/** The control fields and the file names of one Debian package. */
export interface PackageRecord {
  readonly name: string;
  /** Its fields as in dpkg's status file (deb-control(5)). */
  readonly control: string;
  /** Paths of its files and links, without a leading slash. */
  readonly files: ReadonlySet<string>;
}

/** Reads the records of Debian packages. @param archives absolute paths */
export async function readPackageRecords(
  context: BuildContext,
  archives: readonly string[],
): Promise<readonly PackageRecord[]> {
  const records: PackageRecord[] = [];
  for (const file of archives) {
    const run = async (flag: string): Promise<string> => {
      const { stdout } = await context.ports.commands.run({
        argv: ['dpkg-deb', flag, file],
        signal: context.signal,
      });
      return stdout;
    };
    const listed = (await run('-c')).split('\n').flatMap((line) => CONTENT.exec(line)?.[1] ?? []);
    const [name = ''] = basename(file).split('_');
    records.push({ name, control: await run('-f'), files: new Set(listed) });
  }
  return records;
}

/** Returns the names of the files in `archives`: the packages and their dependencies. */
async function downloadPackages(
  context: BuildContext,
  directory: string,
  packages: readonly string[],
): Promise<readonly string[]> {
  const { files, commands } = context.ports;
  for (const name of ['lists/partial', 'archives/partial', 'root']) {
    await files.makeDirectory(join(directory, name), 0o755);
  }
  await files.writeAtomic(join(directory, 'status'), '', { mode: 0o644 });
  const options = aptOptions(context, directory);
  const env = { ...proxySettings(context.env), PATH: context.env['PATH'] ?? '/usr/bin:/bin', LC_ALL: 'C' };
  const aptGet = (...args: string[]) =>
    commands.run({ argv: ['apt-get', '-q', '-y', ...options, ...args], env, signal: context.signal });
  try {
    await aptGet('update');
    await aptGet('install', '--download-only', '--no-install-recommends', ...packages);
  } catch (cause) {
    context.signal.throwIfAborted();
    const message = `downloading packages ${packages.join(', ')}`;
    throw new BundleBuildError('bundlebuild-packages', message, { cause });
  }
  const archives = await files.list(join(directory, 'archives'));
  return archives.filter((name) => name.endsWith('.deb'));
}

function aptOptions(context: BuildContext, directory: string): readonly string[] {
  const settings = {
    'Dir::State::status': join(directory, 'status'),
    'Dir::State::lists': join(directory, 'lists'),
    'Dir::Cache': directory,
    'Dir::Cache::archives': join(directory, 'archives'),
    'APT::Architecture': context.machine.architecture,
    // The sandbox user of apt cannot write to this user's directory.
    'APT::Sandbox::User': '',
    'Debug::NoLocking': 'true',
  };
  return Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
}

function proxySettings(env: BuildContext['env']): Record<string, string> {
  const names = ['http_proxy', 'https_proxy', 'no_proxy'];
  return Object.fromEntries(names.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])));
}

/**
 * The requested packages with their versions: `a_1%3a2-3_amd64.deb` gives `a 1:2-3`. Leaves out dependencies.
 */
function describePackages(archives: readonly string[], packages: readonly string[]): string {
  const all = archives.map((file) => basename(file, '.deb').split('_'));
  return all
    .filter(([name]) => packages.some((wanted) => wanted === name))
    .map(([name = '', version = '']) => `${name} ${version.replaceAll('%3a', ':')}`)
    .join(', ');
}
