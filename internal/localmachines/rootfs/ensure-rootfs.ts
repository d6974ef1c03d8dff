import { createHash } from 'node:crypto';
import { aptSourcesFor } from './apt-sources.ts';
import type { HostPorts } from '../host/host-ports.ts';
import { readText } from '../../file/index.ts';
import { output } from '../host/host-ports.ts';
import { waitForLock } from '../host-lock.ts';
import { packageDependencies } from './package-dependencies.ts';
import { pruneCache } from './prune-cache.ts';

/**
 * How the root file system of a node is made. Its hash is the name in the cache: change it and a new one is built. What a node
 * needs stands in the agent's package and is added from there, so that a local machine hides nothing that the package lacks.
 */
export const baseRootfs = {
  version: 2,
  suite: 'bookworm',
  variant: 'minbase',
  // What a plain Debian machine has by itself. ca-certificates and socat: recommended by the agent, for images of pods and for
  // stories. containerd, runc and all of Kubernetes come from the bundle.
  include: ['ca-certificates', 'procps', 'socat', 'systemd', 'systemd-sysv'],
  hooks: [
    // No seat, no console, no devices to settle and no clock to set in a container.
    'chroot "$1" systemctl mask systemd-udevd.service systemd-udevd-control.socket systemd-udevd-kernel.socket ' +
      'systemd-udev-trigger.service systemd-logind.service console-getty.service getty.target ' +
      'apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer',
    // The log lies on the node's own disk; the kernel's log is the host's.
    'mkdir -p "$1/etc/systemd/journald.conf.d"',
    'printf "[Journal]\\nStorage=persistent\\nReadKMsg=no\\nSystemMaxUse=256M\\n" > "$1/etc/systemd/journald.conf.d/node.conf"',
    // Each node gets its own.
    'rm -f "$1/etc/machine-id" "$1/etc/hostname" "$1/etc/resolv.conf"',
  ],
} as const;

export interface RootfsRecipe {
  readonly version: number;
  readonly suite: string;
  readonly variant: string;
  readonly include: readonly string[];
  readonly hooks: readonly string[];
}

/** A plain machine, and what the agent's package depends on. */
export function rootfsRecipe(dependencies: readonly string[]): RootfsRecipe {
  return { ...baseRootfs, include: [...new Set([...baseRootfs.include, ...dependencies])].sort() };
}

export function recipeHash(recipe: RootfsRecipe): string {
  return createHash('sha256').update(JSON.stringify(recipe)).digest('hex').slice(0, 16);
}

/** Of another command that builds it: a minute, more where packages come slowly. */
const OTHERS_MS = 15 * 60_000;

export interface RootfsOptions {
  /** `<cache>/rootfs`. */
  readonly directory: string;
  /** The agent's Debian package, whose dependencies the machine is to have. */
  readonly packagePath: string;
  readonly onProgress: (line: string) => void;
  readonly signal: AbortSignal;
}

/** The directory of the root file system; built first when the cache has none (about a minute, 230 MB). */
export async function ensureRootfs(host: HostPorts, options: RootfsOptions): Promise<string> {
  const recipe = rootfsRecipe(await packageDependencies(host, options.packagePath, options.signal));
  const target = `${options.directory}/${recipeHash(recipe)}`;
  if ((await host.files.stat(target)) !== undefined) return target;
  await using _turn = await waitForLock(`rootfs ${target}`, {
    clock: host.clock,
    limitMs: OTHERS_MS,
    onWait: () => options.onProgress('another command builds it'),
    signal: options.signal,
  });
  if ((await host.files.stat(target)) !== undefined) return target;
  const partial = `${target}.partial`;
  await host.files.remove(partial); // of a build that was killed; nobody else builds while we hold the lock
  // Not in /tmp, where a killed build would leave it for ever.
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
      // The tool's own choice of directories and language, nothing of the caller's.
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

/** mmdebstrap in namespaces of its own that die with this process, so that a killed build leaves neither mounts nor processes. */
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

/** The tool's own phases (`I: extracting archives...`), without what its packages say. */
function reportPhase(line: string, report: (phase: string) => void): void {
  const phase = /^I: (.*?)(?:\.\.\.)?$/.exec(line)?.[1];
  if (phase !== undefined)
    report(phase.startsWith('running --customize-hook') ? 'adjusting it for machines' : phase);
}

/** A file with the host's sources for the suite, or undefined when it has none. */
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

/** How the host reaches its mirror (proxies, tolerance for snapshots); apt-config is absent on other distributions. */
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
