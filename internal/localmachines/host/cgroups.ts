import { readMounts, type Mount } from '../../platform/index.ts';
import { LocalMachineError } from '../errors.ts';
import type { HostPorts } from './host-ports.ts';
import { readText } from '../../file/index.ts';
import { output, waitUntil } from './host-ports.ts';
import { isScopeOf } from '../network/names.ts';
import { isZombie, parseNamespacePids, parseProcessCgroups } from './proc.ts';

/** All scopes of all local clusters lie in this slice, in each hierarchy. No dash: a dash nests slices. */
export const SLICE = 'clustermini.slice';

const RELEASE_MS = 20_000;
const POLL_MS = 50;

/** One mounted cgroup hierarchy: v1 has one for each controller (and one of systemd), v2 is the only one. */
export interface Hierarchy {
  readonly point: string;
  readonly version: 1 | 2;
  /** As /proc/PID/cgroup names it: `memory`, `cpu,cpuacct`, `name=systemd`; empty for v2. */
  readonly id: string;
}

/** How this host keeps cgroups. */
export interface CgroupLayout {
  readonly hierarchies: readonly Hierarchy[];
  /** systemd is the host's process 1 and must be asked for scopes; otherwise directories are made by hand. */
  readonly managed: boolean;
}

const NOT_CONTROLLERS = new Set(['rw', 'ro', 'xattr', 'clone_children', 'seclabel', 'nsdelegate']);

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

export async function readCgroupLayout(host: HostPorts): Promise<CgroupLayout> {
  const mounts = await readMounts(host.files);
  const managed = (await host.files.stat('/run/systemd/system')) !== undefined;
  return { hierarchies: hierarchiesFrom(mounts), managed };
}

/** The argv that starts `program` in a scope of its own. `launch` is the path of the launch script. */
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

/** The living processes of a scope, in any hierarchy. */
export async function scopeMembers(
  host: HostPorts,
  layout: CgroupLayout,
  scope: string,
  signal: AbortSignal,
): Promise<readonly number[]> {
  const directories = await existingDirectories(host, layout, scope);
  const [first, ...rest] = directories;
  if (first === undefined) return [];
  // A cgroup may vanish under `find`: that is an answer, not a failure.
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

/** Process 1 of the node in a scope: two namespaces deep, number 1 in the inner one. Pods lie deeper. */
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
 * Lets go of processes that stand still: a container runtime freezes a container while it changes what that may use, and
 * one that was killed in that moment leaves it so. In cgroup v1 not even SIGKILL reaches them then; in v2 it does.
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
  // A cgroup may vanish in between: then nobody stands still in it.
  const argv = ['sh', '-c', thaw, 'sh', `${freezer.point}/${SLICE}/${scope}`] as const;
  await host.commands.run({ argv: [...argv], okExitCodes: [0, 1, 2], signal });
}

/** Removes the empty cgroups of a scope. systemd removes those it made by itself. */
export async function removeScope(
  host: HostPorts,
  layout: CgroupLayout,
  scope: string,
  signal: AbortSignal,
): Promise<void> {
  // The kernel lets go of a cgroup a moment after its last process has ended; until then rmdir(2) says EBUSY.
  const gone = await waitUntil(host, { withinMs: RELEASE_MS, everyMs: POLL_MS, signal }, async () => {
    for (const directory of await existingDirectories(host, layout, scope)) {
      const argv = ['find', directory, '-depth', '-type', 'd', '-exec', 'rmdir', '{}', ';'] as const;
      await host.commands.run({ argv: [...argv], okExitCodes: [0, 1], signal });
    }
    return (await existingDirectories(host, layout, scope)).length === 0;
  });
  if (!gone)
    throw new LocalMachineError(
      'localmachines-not-removed',
      `removing the cgroups of ${scope}: still in use`,
    );
}

/** Removes the slice when no cluster has a scope in it any more. */
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

/** A process may end between being listed and being looked at; /proc then says ENOENT or ESRCH. */
async function readStatus(host: HostPorts, pid: number): Promise<string | undefined> {
  return readText(host.files, `/proc/${pid}/status`).catch(() => undefined);
}
