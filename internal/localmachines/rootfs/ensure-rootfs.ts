import { createHash } from 'node:crypto';
import { aptSourcesFor } from './apt-sources.ts';
import { type HostPorts, output } from '../host/host-ports.ts';
import { readText } from '../../file/index.ts';
import { waitForLock } from '../host-lock.ts';
import { pruneCache } from './prune-cache.ts';

/**
 * The recipe of the root file system, without the dependencies of the agent's package. The dependencies are read from
 * the package. If the package does not list one of them, local machines fail and show the mistake. The name in the
 * cache is a hash of the recipe.
 */
export const baseRootfs = {
  version: 2,
  suite: 'bookworm',
  variant: 'minbase',
  // The packages of a plain Debian machine, and those that the agent recommends (ca-certificates for images of pods, socat for stories).
  // containerd, runc and Kubernetes come from the bundle.
  include: ['ca-certificates', 'procps', 'socat', 'systemd', 'systemd-sysv'],
  hooks: [
    // Masks units that a container does not need: it has no seat, no console, no devices and no clock.
    'chroot "$1" systemctl mask systemd-udevd.service systemd-udevd-control.socket systemd-udevd-kernel.socket ' +
      'systemd-udev-trigger.service systemd-logind.service console-getty.service getty.target ' +
      'apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer',
    // Stores the journal on the disk of the node, without the kernel log, which belongs to the host.
    'mkdir -p "$1/etc/systemd/journald.conf.d"',
    'printf "[Journal]\\nStorage=persistent\\nReadKMsg=no\\nSystemMaxUse=256M\\n" > "$1/etc/systemd/journald.conf.d/node.conf"',
    // Removes files that each node creates for itself.
    'rm -f "$1/etc/machine-id" "$1/etc/hostname" "$1/etc/resolv.conf"',
  ],
} as const;

/** See `baseRootfs`. */
export interface RootfsRecipe {
  readonly version: number;
  readonly suite: string;
  readonly variant: string;
  readonly include: readonly string[];
  readonly hooks: readonly string[];
}

/** The recipe with the dependencies of the agent's package. */
export function rootfsRecipe(dependencies: readonly string[]): RootfsRecipe {
  return { ...baseRootfs, include: [...new Set([...baseRootfs.include, ...dependencies])].sort() };
}

/** The name of a root file system in the cache. */
export function recipeHash(recipe: RootfsRecipe): string {
  return createHash('sha256').update(JSON.stringify(recipe)).digest('hex').slice(0, 16);
}

/**
 * How long to wait while another process builds the root file system: usually a minute, longer with a slow
 * mirror.
 */
const OTHERS_MS = 15 * 60_000;

/** See `ensureRootfs`. */
export interface RootfsOptions {
  /** `<cache>/rootfs`. */
  readonly directory: string;
  /** The Debian package of the agent, whose dependencies are installed. */
  readonly packagePath: string;
  readonly onProgress: (line: string) => void;
  readonly signal: AbortSignal;
}

/** Returns the directory of the root file system. Builds it first if the cache does not have it (about a minute, 230 MB). */
export async function ensureRootfs(host: HostPorts, options: RootfsOptions): Promise<string> {
  const recipe = rootfsRecipe(await packageDependencies(host, options.packagePath, options.signal));
  const target = `${options.directory}/${recipeHash(recipe)}`;
  if ((await host.files.stat(target)) !== undefined) return target;
  await using _lock = await waitForLock(`rootfs ${target}`, {
    clock: host.clock,
    limitMs: OTHERS_MS,
    onWait: () => options.onProgress('another command is building the same root file system'),
    signal: options.signal,
  });
  if ((await host.files.stat(target)) !== undefined) return target;
  const partial = `${target}.partial`;
  // Removes what a killed build has left. The directory is not in /tmp, where it would stay forever.
  await host.files.remove(partial);
  const temporary = `${target}.temporary`;
  await host.files.remove(temporary);
  await host.files.makeDirectory(temporary);
  const sources = await writeHostSources(host, options);
  try {
    await host.commands.run({
      argv: buildArgv({
        recipe,
        target: partial,
        sources,
        aptOptions: await hostAptOptions(host, options.signal),
      }),
      // The build uses nothing from the environment of the caller.
      env: {
        PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
        LC_ALL: 'C.UTF-8',
        TMPDIR: temporary,
      },
      onLine: (line) => reportPhase(line, options.onProgress),
      signal: options.signal,
    });
    await host.files.rename(partial, target);
    await pruneCache(host, { directory: options.directory, keep: target });
  } finally {
    await host.files.remove(temporary);
    if (sources !== undefined) await host.files.remove(sources);
  }
  return target;
}

/** mmdebstrap in its own namespaces, which end with this process: a killed build leaves neither mounts nor processes. */
export function buildArgv(options: {
  readonly recipe: RootfsRecipe;
  readonly target: string;
  readonly sources: string | undefined;
  readonly aptOptions: readonly string[];
}): readonly [string, ...string[]] {
  const { recipe } = options;
  // prettier-ignore
  return [
    'setpriv', '--pdeathsig', 'KILL',
    'unshare', '--pid', '--fork', '--kill-child', '--mount', '--mount-proc', '--propagation', 'slave', '--',
    'mmdebstrap', '--mode=root', `--variant=${recipe.variant}`, `--include=${recipe.include.join(',')}`,
    ...recipe.hooks.map((hook) => `--customize-hook=${hook}`),
    ...options.aptOptions.map((option) => `--aptopt=${option}`),
    recipe.suite, options.target,
    ...(options.sources === undefined ? [] : [options.sources]),
  ];
}

/** Reports the phases of mmdebstrap (`I: extracting archives...`), without the output of packages. */
function reportPhase(line: string, report: (phase: string) => void): void {
  const phase = /^I: (.*?)(?:\.\.\.)?$/.exec(line)?.[1];
  if (phase !== undefined)
    report(phase.startsWith('running --customize-hook') ? 'customizing the root file system' : phase);
}

/**
 * Writes a file with the package sources of the host for the suite. Returns undefined when the host has no such
 * sources.
 */
async function writeHostSources(host: HostPorts, options: RootfsOptions): Promise<string | undefined> {
  const directory = '/etc/apt/sources.list.d';
  const paths = [
    '/etc/apt/sources.list',
    ...(await host.files.list(directory)).map((name) => `${directory}/${name}`),
  ];
  const files = await Promise.all(
    paths
      .filter((path) => /\.(list|sources)$/.test(path))
      .map(async (path) => ({ path, text: (await readText(host.files, path)) ?? '' })),
  );
  const lines = aptSourcesFor(baseRootfs.suite, files);
  if (lines.length === 0) return undefined;
  const path = `${options.directory}/host.list`;
  await host.files.writeAtomic(path, `${lines.join('\n')}\n`, { mode: 0o644 });
  return path;
}

/** The apt options of the host for its mirror (proxies, snapshots). Other distributions have no apt-config. */
async function hostAptOptions(host: HostPorts, signal: AbortSignal): Promise<readonly string[]> {
  const dump = await output(host, ['apt-config', 'dump'], signal).catch(() => {
    signal.throwIfAborted();
    return '';
  });
  return dump
    .split('\n')
    .filter(
      (line) =>
        /^Acquire::(https?::|Retries|Check-Valid-Until|Check-Date)/.test(line) && !line.endsWith('"";'),
    );
}

/** The names of the packages that a Debian package depends on, without versions; of alternatives, the first one. */
async function packageDependencies(
  host: HostPorts,
  packagePath: string,
  signal: AbortSignal,
): Promise<readonly string[]> {
  return parseDepends(await output(host, ['dpkg-deb', '--field', packagePath, 'Depends'], signal));
}

/**
 * Parses a field like `libc6 (>= 2.28), systemd | elogind, dbus:any` (deb-control(5), Package relationships).
 */
export function parseDepends(text: string): readonly string[] {
  return text
    .split(',')
    .map((relation) => /^\s*([a-z0-9][a-z0-9+.-]*)/.exec(relation)?.[1] ?? '')
    .filter((name) => name !== '');
}
