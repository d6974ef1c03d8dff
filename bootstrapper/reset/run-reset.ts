import { dirname } from 'node:path';
import { readText, type FilePort } from '../../internal/file/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import { ResetError } from './errors.ts';
import type { ResetPaths } from './reset-orders.ts';

const MAX_BYTES = 64 * 1024;
const COMMAND_MS = 30_000;
const REBOOT_MS = 60_000;
/** The systemd slice of all pods. */
const PODS_SLICE = 'kubepods.slice';

/** Ports (injected dependencies) of a reset. */
export interface ResetPorts extends Pick<SystemPorts, 'files' | 'commands' | 'log'> {
  readonly units: Pick<SystemPorts['units'], 'stop'>;
}

/** Ports (injected dependencies) of a reset, and the units and paths that it stops and deletes. */
export interface ResetOptions {
  readonly paths: ResetPaths;
  /** Units of the workloads. A unit that needs another one comes before that one. */
  readonly unitsToStop: readonly string[];
  /** The unit of the container runtime. Its shims keep running when it stops. */
  readonly runtimeUnit: string;
  /** Directories and files outside the agent's state. */
  readonly directoriesToRemove: readonly string[];
  readonly linksToRemove: readonly string[];
  /** Whether a PCR shows the node lock until the next reboot. */
  readonly hasLockRegister: boolean;
  readonly bootId: string;
  readonly signal: AbortSignal;
}

/** Result of a reset. */
type Outcome = 'none' | 'fresh' | 'restarting';

/**
 * Carries out a reset request that is on disk. Must be called before the agent opens anything else.
 * @returns `none` without a request; `fresh` when this machine no longer belongs to a cluster; `restarting`
 * when the machine is rebooting to clear its PCR, and the agent has to end
 */
export async function runReset(ports: ResetPorts, options: ResetOptions): Promise<Outcome> {
  const { files, log } = ports;
  const { paths, bootId, hasLockRegister } = options;
  const order = await files.read(paths.resetOrder, MAX_BYTES);
  if (order === undefined) return 'none';
  // The id of the boot in which the state was deleted; undefined before that.
  const wipedIn = (await readText(files, wipeMarkerPath(paths), MAX_BYTES))?.trim();
  if (wipedIn === undefined || wipedIn === bootId) {
    log.warn('resetting this machine as its owner has ordered', {});
    await stopEverything(ports, options);
    await wipe(ports, options);
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

async function stopEverything(ports: ResetPorts, options: ResetOptions): Promise<void> {
  const { units } = ports;
  const { signal, unitsToStop, runtimeUnit } = options;
  for (const unit of [...unitsToStop, PODS_SLICE]) await units.stop(unit, signal);
  // The shim of each container is in the runtime's control group and survives a stop of the runtime.
  await run(ports, options, ['systemctl', 'kill', '--kill-whom=all', '--signal=KILL', runtimeUnit]);
  await units.stop(runtimeUnit, signal);
}

/**
 * Unmounts first, because deleting a directory would also delete what is mounted in it. Deletes the machine
 * key last.
 */
async function wipe(ports: ResetPorts, options: ResetOptions): Promise<void> {
  const { files } = ports;
  const { paths, directoriesToRemove, linksToRemove } = options;
  for (const path of await mountsIn(files, directoriesToRemove))
    await run(ports, options, ['umount', '--lazy', path]);
  const [left] = await mountsIn(files, directoriesToRemove);
  if (left !== undefined)
    throw new ResetError('reset-still-mounted', `cannot unmount ${left}`, {
      details: { path: left },
    });
  for (const link of linksToRemove) await run(ports, options, ['ip', 'link', 'delete', link]);
  for (const directory of directoriesToRemove) await files.remove(directory);
  const kept = [paths.store, dirname(paths.resetOrder), dirname(paths.machineKey)];
  for (const name of await files.list(paths.state)) {
    const path = `${paths.state}/${name}`;
    if (!kept.includes(path)) await files.remove(path);
  }
  for (const path of [paths.fingerprint, paths.machineKey]) await files.remove(path);
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

/**
 * Runs a command and only logs its failure: after a crash, the repeated command has nothing to do and may
 * fail.
 */
async function run(
  { commands, log }: ResetPorts,
  { signal }: ResetOptions,
  argv: readonly [string, ...string[]],
  timeoutMs = COMMAND_MS,
): Promise<void> {
  try {
    await commands.run({ argv: [...argv], timeoutMs, signal });
  } catch (error) {
    signal.throwIfAborted();
    log.info('reset step failed, continuing', { argv: argv.join(' '), error });
  }
}

function wipeMarkerPath({ resetOrder }: ResetPaths): string {
  return `${resetOrder}.wiped`;
}
