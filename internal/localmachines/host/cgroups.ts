import { readMounts, type Mount } from '../../platform/index.ts';
import { LocalMachineError } from '../errors.ts';
import { type HostPorts, output, waitUntil } from './host-ports.ts';
import { readText } from '../../file/index.ts';
import { isScopeOf } from '../network/names.ts';
import { isZombie, parseNamespacePids, parseProcessCgroups } from './proc.ts';

/**
 * The slice with all scopes of all local clusters, in each hierarchy. Its name has no dash, because systemd
 * reads a dash as nesting of slices.
 */
export const SLICE = 'clustermini.slice';

const RELEASE_MS = 20_000;
const POLL_MS = 50;

/** A mounted cgroup hierarchy: v1 has one for each controller and one of systemd, v2 has only one. */
export interface Hierarchy {
  readonly point: string;
  readonly version: 1 | 2;
  /** The hierarchy's name in /proc/PID/cgroup: `memory`, `cpu,cpuacct`, `name=systemd`; empty for v2. */
  readonly id: string;
}

/** The cgroup hierarchies of this host. */
export interface CgroupLayout {
  readonly hierarchies: readonly Hierarchy[];
  /**
   * Whether process 1 of the host is systemd. It then creates the scopes; otherwise this program creates the
   * directories.
   */
  readonly managed: boolean;
}

const NOT_CONTROLLERS = new Set(['rw', 'ro', 'xattr', 'clone_children', 'seclabel', 'nsdelegate']);

/** The cgroup hierarchies among these mounts. */
export function hierarchiesFrom(mounts: readonly Mount[]): readonly Hierarchy[] {
  return mounts
    .filter((mount) => mount.point.startsWith('/sys/fs/cgroup') && /^cgroup2?$/.test(mount.type))
    .map((mount) =>
      mount.type === 'cgroup2'
        ? { point: mount.point, version: 2, id: '' }
        : { point: mount.point, version: 1, id: mount.superOptions.filter(isController).join(',') },
    );
}

function isController(option: string): boolean {
  return !NOT_CONTROLLERS.has(option) && !option.startsWith('release_agent=');
}

/** Reads the layout of this host. */
export async function readCgroupLayout(host: HostPorts): Promise<CgroupLayout> {
  const mounts = await readMounts(host.files);
  const managed = (await host.files.stat('/run/systemd/system')) !== undefined;
  return { hierarchies: hierarchiesFrom(mounts), managed };
}

/** The argv that starts `program` in its own scope. `launch` is the path of the launch script. */
export function inScope(
  layout: CgroupLayout,
  options: { readonly launch: string; readonly scope: string; readonly log: string },
  program: readonly string[],
): readonly [string, ...string[]] {
  const launch = ['sh', options.launch, '-l', options.log] as const;
  if (layout.managed) {
    // prettier-ignore
    return [...launch, '--', 'systemd-run', '--scope', '--quiet', '--collect', `--slice=${SLICE}`,
      `--unit=${options.scope}`, '--property=Delegate=yes', '--', ...program];
  }
  const join = layout.hierarchies.flatMap(({ point }) => ['-c', `${point}/${SLICE}/${options.scope}`]);
  return [...launch, ...join, '--', ...program];
}

/** The argv prefix that runs a program in the cgroups of process `pid`, given its /proc/PID/cgroup. */
export function joinCgroupsOf(layout: CgroupLayout, processCgroups: string): readonly string[] {
  const paths = parseProcessCgroups(processCgroups);
  return layout.hierarchies.flatMap(({ point, id }) => {
    const path = paths.get(id);
    return path === undefined ? [] : ['-c', `${point}${path === '/' ? '' : path}`];
  });
}

/** The names of the scopes of a cluster that exist in any hierarchy. */
export async function listScopes(
  host: HostPorts,
  layout: CgroupLayout,
  number: number,
): Promise<readonly string[]> {
  const found = await Promise.all(
    layout.hierarchies.map(({ point }) => host.files.list(`${point}/${SLICE}`)),
  );
  return [...new Set(found.flat())].filter((name) => isScopeOf(number, name)).sort();
}

/** The running processes of a scope, in any hierarchy. */
export async function scopeMembers(
  host: HostPorts,
  layout: CgroupLayout,
  scope: string,
  signal: AbortSignal,
): Promise<readonly number[]> {
  const directories = await existingDirectories(host, layout, scope);
  const [first, ...rest] = directories;
  if (first === undefined) return [];
  // A cgroup may disappear while `find` runs.
  const argv = ['find', first, ...rest, '-name', 'cgroup.procs', '-exec', 'cat', '{}', '+'] as const;
  const { stdout } = await host.commands.run({ argv: [...argv], okExitCodes: [0, 1], signal });
  const pids = [
    ...new Set(
      stdout
        .split('\n')
        .filter((line) => line !== '')
        .map(Number),
    ),
  ];
  const statuses = await Promise.all(pids.map((pid) => readStatus(host, pid)));
  return pids.filter((_, at) => statuses[at] !== undefined && !isZombie(statuses[at]));
}

/**
 * Finds process 1 of the node in a scope: its number in a PID namespace one level below the host is 1. Pods
 * are nested deeper.
 */
export async function findLeader(host: HostPorts, pids: readonly number[]): Promise<number | undefined> {
  for (const pid of pids) {
    const status = await readStatus(host, pid);
    if (status === undefined) continue;
    const numbers = parseNamespacePids(status);
    if (numbers.length === 2 && numbers[1] === 1) return pid;
  }
  return undefined;
}

/**
 * Thaws frozen processes: a container runtime that is killed while it changes the limits of a container leaves it frozen. In cgroup v1,
 * SIGKILL has no effect on frozen processes.
 */
export async function thawScope(
  host: HostPorts,
  layout: CgroupLayout,
  scope: string,
  signal: AbortSignal,
): Promise<void> {
  const freezer = layout.hierarchies.find(
    ({ version, id }) => version === 1 && id.split(',').includes('freezer'),
  );
  if (freezer === undefined) return;
  const thaw = 'find "$1" -name freezer.state | while read -r each; do echo THAWED > "$each"; done';
  // A cgroup may disappear while the script runs.
  const argv = ['sh', '-c', thaw, 'sh', `${freezer.point}/${SLICE}/${scope}`] as const;
  await host.commands.run({ argv: [...argv], okExitCodes: [0, 1, 2], signal });
}

/** Removes the empty cgroups of a scope. systemd itself removes the cgroups that it created. */
export async function removeScope(
  host: HostPorts,
  layout: CgroupLayout,
  scope: string,
  signal: AbortSignal,
): Promise<void> {
  // For a moment after the last process has ended, rmdir(2) fails with EBUSY.
  const gone = await waitUntil(host, { withinMs: RELEASE_MS, everyMs: POLL_MS, signal }, async () => {
    for (const directory of await existingDirectories(host, layout, scope)) {
      const argv = ['find', directory, '-depth', '-type', 'd', '-exec', 'rmdir', '{}', ';'] as const;
      await host.commands.run({ argv: [...argv], okExitCodes: [0, 1], signal });
    }
    return (await existingDirectories(host, layout, scope)).length === 0;
  });
  if (!gone) throw new LocalMachineError('localmachines-not-removed', `cgroups of ${scope} still in use`);
}

/** Removes the slice when it has no scopes. */
export async function removeSliceIfEmpty(
  host: HostPorts,
  layout: CgroupLayout,
  signal: AbortSignal,
): Promise<void> {
  for (const { point } of layout.hierarchies) {
    const entries = await host.files.list(`${point}/${SLICE}`);
    if (entries.some((name) => name.endsWith('.scope'))) return;
  }
  if (layout.managed) await output(host, ['systemctl', 'stop', SLICE], signal);
  else await removeScope(host, layout, '', signal);
}

async function existingDirectories(
  host: HostPorts,
  layout: CgroupLayout,
  scope: string,
): Promise<readonly string[]> {
  const directories = layout.hierarchies.map(
    ({ point }) => `${point}/${SLICE}${scope === '' ? '' : `/${scope}`}`,
  );
  const stats = await Promise.all(directories.map((directory) => host.files.stat(directory)));
  return directories.filter((_, at) => stats[at] !== undefined);
}

/** Reads the status of a process; undefined if the process has ended (ENOENT, ESRCH). */
async function readStatus(host: HostPorts, pid: number): Promise<string | undefined> {
  return readText(host.files, `/proc/${pid}/status`).catch(() => undefined);
}
