import { dirname } from 'node:path';
import { readText, type FilePort } from '../../internal/file/index.ts';
import { removeRegistries } from '../registries/index.ts';
import { ResetError } from './errors.ts';
import { deleteNetfilterRules } from './netfilter.ts';
import type { ResetPaths } from './reset-orders.ts';
import { stopUnits, tryCommand, type StopOptions, type StopPorts } from './stop-units.ts';

const MAX_BYTES = 64 * 1024;
const COMMAND_MS = 30_000;
const REBOOT_MS = 60_000;

/** Ports (injected dependencies) of a reset. */
export interface ResetPorts extends StopPorts {
  readonly files: FilePort;
}

/** Ports (injected dependencies) of a reset, and the units and paths that it stops and deletes. */
export interface ResetOptions extends StopOptions {
  readonly paths: ResetPaths;
  /** Directories and files outside the agent's state. */
  readonly directoriesToRemove: readonly string[];
  readonly linksToRemove: readonly string[];
  /** The protocol of the routes to delete that belong to no link (ip-route(8), `proto`). */
  readonly routeProtocol: number;
  /** Directory of registries. A reset deletes only the entries that the agent has written. */
  readonly registries: string;
  /** Whether this machine has a lock register: a PCR that shows the node lock until the machine reboots, so a reset ends with a reboot. */
  readonly hasLockRegister: boolean;
  readonly bootId: string;
  /**
   * The encrypted disk with the agent's state and some of the directories; undefined if no directory is on an encrypted
   * disk.
   */
  readonly stateDisk?: ResetDisk | undefined;
}

/** The state disk of the machine that is reset. */
export interface ResetDisk {
  /** Directories of the machine that are mounted from the disk. */
  readonly directories: readonly string[];
  /** Makes everything on the disk unreadable, including the request of this reset. */
  readonly destroy: () => Promise<void>;
}

/** Result of a reset. */
type Outcome = 'none' | 'fresh' | 'restarting';

/**
 * Carries out a reset request that is on disk. Must be called before the agent opens anything else.
 * @returns `none` without a request; `fresh` when this machine no longer belongs to a cluster; `restarting`
 * when the machine is rebooting to clear its PCR or to leave its destroyed state disk, and the agent has to end
 */
export async function runReset(ports: ResetPorts, options: ResetOptions): Promise<Outcome> {
  const { files, log } = ports;
  const { paths, bootId, hasLockRegister, stateDisk, signal } = options;
  const order = await files.read(paths.resetOrder, MAX_BYTES);
  if (order === undefined) return 'none';
  // The id of the boot in which the state was deleted; undefined before that.
  const wipedIn = (await readText(files, wipeMarkerPath(paths), MAX_BYTES))?.trim();
  if (wipedIn === undefined || wipedIn === bootId) {
    log.warn('resetting this machine as its owner has ordered', {});
    await stopUnits(ports, options);
    await deleteNetfilterRules(ports, signal);
    await wipe(ports, options);
    if (stateDisk !== undefined) {
      await stateDisk.destroy();
      log.warn('rebooting, because the kernel still has the key of the destroyed state disk', {});
      await restartMachine(ports, options);
      return 'restarting';
    }
    if (hasLockRegister) {
      await files.writeAtomic(wipeMarkerPath(paths), `${bootId}\n`);
      log.warn('rebooting to clear the lock register', {});
      await restartMachine(ports, options);
      return 'restarting';
    }
  }
  // The marker is deleted first: if it remained, the next order would count as carried out.
  await files.remove(wipeMarkerPath(paths));
  await files.remove(paths.resetOrder);
  log.warn('machine reset completed', {});
  return 'fresh';
}

/**
 * Deletes the state of the node. Unmounts volumes of pods first, because deleting a directory would also delete the files that are
 * mounted in it. Deletes the machine key last.
 */
async function wipe(ports: ResetPorts, options: ResetOptions): Promise<void> {
  const { files } = ports;
  const { paths, directoriesToRemove, linksToRemove, routeProtocol, registries, signal } = options;
  const onDisk = new Set(options.stateDisk?.directories);
  // The kernel lists mounts by paths without symbolic links.
  const realOf = await realPaths(ports, [paths.state, ...directoriesToRemove], signal);
  const directories = directoriesToRemove.map(realOf);
  const mounts = async (): Promise<readonly string[]> =>
    (await mountsIn(files, directories)).filter((path) => !directories.includes(path));
  for (const path of await mounts()) await tryCommand(ports, ['umount', '--lazy', path], signal);
  const [left] = await mounts();
  if (left !== undefined)
    throw new ResetError('reset-still-mounted', `cannot unmount ${left}`, {
      details: { path: left },
    });
  for (const link of linksToRemove) await tryCommand(ports, ['ip', 'link', 'delete', link], signal);
  for (const family of ['-4', '-6'])
    await tryCommand(ports, ['ip', family, 'route', 'flush', 'proto', String(routeProtocol)], signal);
  const mountPoints = await mountsIn(files, [realOf(paths.state), ...directories]);
  for (const path of directoriesToRemove.filter((each) => !onDisk.has(each))) {
    const isLink = (await files.stat(path))?.kind === 'symlink';
    await clear(files, realOf(path), isLink ? [...mountPoints, realOf(path)] : mountPoints);
  }
  await removeRegistries(files, registries);
  const kept = [paths.store, dirname(paths.resetOrder), dirname(paths.machineKey)];
  for (const name of await files.list(paths.state, { temporary: true }))
    if (!kept.includes(`${paths.state}/${name}`))
      await clear(files, `${realOf(paths.state)}/${name}`, mountPoints);
  for (const path of [paths.fingerprint, paths.machineKey]) {
    await files.removeTemporary(path);
    await files.remove(path);
  }
}

/**
 * Removes a path. A mount point is emptied and stays mounted: it may be a disk of its own, which would have its data again after the
 * next boot. The same is true for what a symbolic link leads to.
 */
async function clear(files: FilePort, path: string, kept: readonly string[]): Promise<void> {
  if (!kept.some((each) => each === path || each.startsWith(`${path}/`))) return files.remove(path);
  for (const name of await files.list(path, { temporary: true })) await clear(files, `${path}/${name}`, kept);
}

/** A function that resolves all symbolic links in these paths. */
async function realPaths(
  { commands }: Pick<ResetPorts, 'commands'>,
  paths: readonly string[],
  signal: AbortSignal,
): Promise<(path: string) => string> {
  const argv = ['realpath', '--canonicalize-missing', '--', ...paths] as const;
  const { stdout } = await commands.run({ argv: [...argv], timeoutMs: COMMAND_MS, signal });
  const resolved = stdout.trimEnd().split('\n');
  if (resolved.length !== paths.length) throw new TypeError(`realpath printed ${resolved.length} paths`);
  return (path) => resolved[paths.indexOf(path)] ?? path;
}

/**
 * Starts a reboot, which also ends the agent.
 * @throws ResetError `reset-not-restarted`
 */
async function restartMachine({ commands }: ResetPorts, { signal }: ResetOptions): Promise<void> {
  try {
    await commands.run({ argv: ['systemctl', 'reboot'], timeoutMs: REBOOT_MS, signal });
  } catch (cause) {
    signal.throwIfAborted();
    throw new ResetError('reset-not-restarted', 'cannot reboot the machine', { cause });
  }
}

async function mountsIn(files: FilePort, directories: readonly string[]): Promise<readonly string[]> {
  return mountsBelow((await readText(files, '/proc/self/mountinfo')) ?? '', directories);
}

/**
 * Mount points in these directories, deepest first. proc_pid_mountinfo(5) writes special characters as \NNN. Mounts whose
 * directory was deleted ("//deleted") are left out: no path leads to them.
 */
export function mountsBelow(mountinfo: string, directories: readonly string[]): readonly string[] {
  return mountinfo
    .split('\n')
    .map((line) => line.split(' ')[4] ?? '')
    .map((path) => path.replace(/\\([0-7]{3})/g, (_, code: string) => String.fromCharCode(parseInt(code, 8))))
    .filter((path) => !path.endsWith('//deleted'))
    .filter((path) => directories.some((directory) => path === directory || path.startsWith(`${directory}/`)))
    .toReversed();
}

function wipeMarkerPath({ resetOrder }: ResetPaths): string {
  return `${resetOrder}.wiped`;
}
