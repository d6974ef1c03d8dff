import { join } from 'node:path';
import {
  mountOf,
  readAvailableMemory,
  readMounts,
  readStorageProtection,
  type SystemPorts,
} from '../../../internal/platform/index.ts';

const COMMAND_MS = 60_000;
/** Stays free for the services of the machine: the kubelet evicts pods when less than 100 MiB are available. */
const RESERVE_BYTES = 512 * 1024 ** 2;
/** Users of the throwaway etcd only pass through: root alone can list the directory. */
const MODE = 0o711;

/** How the files of a proof are protected from a reader of the disk. `clear`: not at all. */
export type ThrowawayKind = 'memory' | 'encrypted' | 'clear';

/** Where unencrypted snapshots and the databases that are restored from them are kept until a proof has ended. */
export interface ThrowawayPlace {
  readonly kind: ThrowawayKind;
  /** Directory of the snapshots. */
  readonly snapshots: string;
  /** Directory of the restored database; undefined: beside the data of the member. */
  readonly restored: string | undefined;
  /** Limit of the file system in memory, in bytes; 0 for a place on a disk. */
  readonly memoryBytes: number;
}

/** Paths and space of a proof. */
export interface ThrowawaySettings {
  /** Directory with the data of etcd, which decides whether the disk is encrypted. */
  readonly stateDir: string;
  /** Parent directory of the file system in memory. It is outside of the state disk. */
  readonly memoryDirectory: string;
  /** Directory of the snapshots on the disk. */
  readonly diskDirectory: string;
  /** Space for the snapshots and one restored database, in bytes. */
  readonly neededBytes: number;
}

type PlacePorts = Pick<SystemPorts, 'files' | 'commands' | 'log'>;

/**
 * Runs `work` with a place for a proof, which is deleted afterwards. On an encrypted state disk it is on that disk. Otherwise it is a
 * file system in memory of limited size, so that nothing unencrypted is written to the disk, and a power cut leaves nothing.
 * If the machine has too little memory, it is on the unencrypted disk after all, because a backup that nobody has proved is worth
 * less: the same data lies there in the database of etcd itself. The log, the record of the backup and the doctor say so.
 * The kernel never swaps the memory out, because preflight refuses machines with swap.
 */
export async function withThrowawayPlace<T>(
  ports: PlacePorts,
  settings: ThrowawaySettings,
  work: (place: ThrowawayPlace) => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  const { files, log } = ports;
  const { memoryDirectory, diskDirectory, neededBytes } = settings;
  await removeThrowawayMemory(ports, memoryDirectory, signal);
  const mountPoint = mountPointOf(memoryDirectory);
  try {
    const kind = await chooseKind(ports, settings);
    if (kind !== 'memory' || !(await isMounted(ports, settings, signal))) {
      const onDisk = { snapshots: diskDirectory, restored: undefined, memoryBytes: 0 };
      return await work({ kind: kind === 'memory' ? 'clear' : kind, ...onDisk });
    }
    log.info('proving a backup in memory', { neededBytes });
    const snapshots = join(mountPoint, 'snapshots');
    await files.makeDirectory(snapshots);
    const restored = join(mountPoint, 'restored');
    return await work({ kind, snapshots, restored, memoryBytes: neededBytes });
  } finally {
    await removeThrowawayMemory(ports, memoryDirectory, new AbortController().signal);
  }
}

/**
 * Deletes what is in memory, and unmounts it. The files are deleted first, because a container that has a copy of the mount would
 * keep them.
 */
export async function removeThrowawayMemory(
  { files, commands }: Pick<PlacePorts, 'files' | 'commands'>,
  memoryDirectory: string,
  signal: AbortSignal,
): Promise<void> {
  const mountPoint = mountPointOf(memoryDirectory);
  while (mountOf(await readMounts(files), mountPoint)?.point === mountPoint) {
    for (const name of await files.list(mountPoint, { temporary: true }))
      await files.remove(join(mountPoint, name));
    await commands.run({ argv: ['umount', '--lazy', mountPoint], timeoutMs: COMMAND_MS, signal });
  }
  await files.remove(memoryDirectory);
}

async function chooseKind(
  { files, log }: PlacePorts,
  { stateDir, neededBytes }: ThrowawaySettings,
): Promise<ThrowawayKind> {
  const protection = (await readStorageProtection(files, [stateDir])).get(stateDir);
  if (protection === 'encrypted') return 'encrypted';
  const availableBytes = await readAvailableMemory(files);
  if (availableBytes !== undefined && availableBytes >= neededBytes + RESERVE_BYTES) return 'memory';
  log.warn('too little memory for the proof of a backup, which uses the unencrypted state disk instead', {
    ...{ neededBytes: neededBytes + RESERVE_BYTES, availableBytes },
  });
  return 'clear';
}

/** Mounts a file system in memory. False if the kernel refuses, as in some containers. */
async function isMounted(
  { files, commands, log }: PlacePorts,
  { memoryDirectory, neededBytes }: ThrowawaySettings,
  signal: AbortSignal,
): Promise<boolean> {
  const mountPoint = mountPointOf(memoryDirectory);
  await files.makeDirectory(memoryDirectory, MODE);
  await files.makeDirectory(mountPoint, MODE);
  const options = `size=${neededBytes},mode=0711,nodev,nosuid,noexec`;
  const argv = ['mount', '-t', 'tmpfs', '-o', options, 'cluster-backup-proof', mountPoint] as const;
  try {
    await commands.run({ argv, timeoutMs: COMMAND_MS, signal });
    return true;
  } catch (error) {
    signal.throwIfAborted();
    log.warn('no memory could be mounted for the proof of a backup, which uses the unencrypted state disk', {
      error,
    });
    return false;
  }
}

function mountPointOf(memoryDirectory: string): string {
  return join(memoryDirectory, 'memory');
}
