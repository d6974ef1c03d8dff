import type { CommandRunner } from '../../internal/exec/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import type { UnitPort } from '../../internal/platform/index.ts';
import { ResetError } from './errors.ts';
import type { ResetPaths } from './reset-orders.ts';

const MAX_BYTES = 64 * 1024;
const MAX_MOUNTS_BYTES = 4 * 1024 * 1024;
const COMMAND_MS = 30_000;
const REBOOT_MS = 60_000;
/** All containers of Kubernetes, with what runs in them. */
const PODS_SLICE = 'kubepods.slice';

export interface ResetPorts {
  readonly files: FilePort;
  readonly commands: CommandRunner;
  readonly units: Pick<UnitPort, 'stop'>;
  readonly log: Logger;
}

export interface ResetOptions {
  readonly paths: ResetPaths;
  /** Of this machine's workloads, whoever needs another one first. */
  readonly unitsToStop: readonly string[];
  /** The container runtime, whose helpers outlive it. */
  readonly runtimeUnit: string;
  /** What the workloads left outside the agent's state. */
  readonly directoriesToRemove: readonly string[];
  readonly linksToRemove: readonly string[];
  /** A register shows the lock until the machine is started anew. */
  readonly hasLockRegister: boolean;
  readonly bootId: string;
  readonly signal: AbortSignal;
}

/** Where a reset has arrived. */
type Outcome = 'none' | 'fresh' | 'restarting';

/**
 * Carries out an order that waits on disk; called before anything else of the agent is opened.
 * @returns `none` without an order, `fresh` when this machine belongs to nobody any more, `restarting` when the machine
 *   is being restarted for its register and the agent has to end
 */
export async function runReset(ports: ResetPorts, options: ResetOptions): Promise<Outcome> {
  const { files, log } = ports;
  const { paths: places, bootId, hasLockRegister } = options;
  const order = await files.read(places.resetOrder, MAX_BYTES);
  if (order === undefined) return 'none';
  const wipedIn = await readWipedMark(files, markOf(places));
  if (wipedIn === undefined || wipedIn === bootId) {
    log.warn('this machine becomes a fresh one, as its owner has ordered', {});
    await stopEverything(ports, options);
    await wipe(ports, options);
    if (hasLockRegister) {
      await files.writeAtomic(markOf(places), `${bootId}\n`);
      log.warn('the machine is restarted: its lock register is cleared by that alone', {});
      await restartMachine(ports, options);
      return 'restarting';
    }
  }
  // The mark first: one that stayed would let a later order pass for carried out.
  await files.remove(markOf(places));
  await files.remove(places.resetOrder);
  log.warn('this machine is fresh', {});
  return 'fresh';
}

async function stopEverything(ports: ResetPorts, options: ResetOptions): Promise<void> {
  const { units } = ports;
  const { signal, unitsToStop, runtimeUnit } = options;
  for (const unit of [...unitsToStop, PODS_SLICE]) await units.stop(unit, signal);
  // The helper of each container lives in the runtime's group and is left alone when the runtime stops.
  await run(ports, options, ['systemctl', 'kill', '--kill-whom=all', '--signal=KILL', runtimeUnit]);
  await units.stop(runtimeUnit, signal);
}

/** Mounts first, or removing a directory would reach through them; the machine's key last. */
async function wipe(ports: ResetPorts, options: ResetOptions): Promise<void> {
  const { files } = ports;
  const { paths: places, directoriesToRemove: foldersToRemove, linksToRemove } = options;
  for (const path of await mountsIn(files, foldersToRemove))
    await run(ports, options, ['umount', '--lazy', path]);
  const [left] = await mountsIn(files, foldersToRemove);
  if (left !== undefined)
    throw new ResetError('reset-still-mounted', `making this machine fresh: ${left} cannot be unmounted`, {
      details: { path: left },
    });
  for (const link of linksToRemove) await run(ports, options, ['ip', 'link', 'delete', link]);
  for (const folder of foldersToRemove) await files.remove(folder);
  const kept = [places.store, folderOf(places.resetOrder), folderOf(places.machineKey)];
  for (const name of await files.list(places.state)) {
    const path = `${places.state}/${name}`;
    if (!kept.includes(path)) await files.remove(path);
  }
  for (const path of [places.fingerprint, places.machineKey]) await files.remove(path);
}

/** The machine goes down with the agent; one that does not is to be said, not waited for. */
async function restartMachine({ commands }: ResetPorts, { signal }: ResetOptions): Promise<void> {
  try {
    await commands.run({ argv: ['systemctl', 'reboot'], timeoutMs: REBOOT_MS, signal });
  } catch (cause) {
    signal.throwIfAborted();
    throw new ResetError('reset-not-restarted', 'restarting the machine', { cause });
  }
}

async function mountsIn(files: FilePort, folders: readonly string[]): Promise<readonly string[]> {
  const mounted = Buffer.from((await files.read('/proc/self/mountinfo', MAX_MOUNTS_BYTES)) ?? []);
  return mountsBelow(mounted.toString('utf8'), folders);
}

/**
 * Mount points in these directories, the deepest first; proc_pid_mountinfo(5) writes odd characters as \NNN. A mount whose
 * directory is gone ("//deleted") can be reached through no directory.
 */
export function mountsBelow(mountinfo: string, folders: readonly string[]): readonly string[] {
  return mountinfo
    .split('\n')
    .map((line) => line.split(' ')[4] ?? '')
    .map((path) => path.replace(/\\([0-7]{3})/g, (_, code: string) => String.fromCharCode(parseInt(code, 8))))
    .filter((path) => !path.endsWith('//deleted'))
    .filter((path) => folders.some((folder) => path === folder || path.startsWith(`${folder}/`)))
    .toReversed();
}

/** What is gone already is no failure: each step is taken again after a crash. */
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
    log.info('a step of the reset had nothing to do, or failed', { argv: argv.join(' '), error });
  }
}

/** In which boot the disk was wiped; undefined before it was. */
async function readWipedMark(files: FilePort, path: string): Promise<string | undefined> {
  const bytes = await files.read(path, MAX_BYTES);
  return bytes === undefined ? undefined : Buffer.from(bytes).toString('utf8').trim();
}

function markOf({ resetOrder }: ResetPaths): string {
  return `${resetOrder}.wiped`;
}

function folderOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/'));
}
