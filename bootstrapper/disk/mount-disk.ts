import { mountOf, readMounts } from '../../internal/platform/index.ts';
import { FILE_SYSTEM_OPTIONS, MOUNT_OPTIONS } from '../../internal/statedisk/index.ts';
import type { DiskPorts, DiskSettings } from './disk-settings.ts';
import { DiskError } from './errors.ts';

const COMMAND_MS = 300_000;

/** The path of the mapping. */
export function mappingOf({ name }: Pick<DiskSettings, 'name'>): string {
  return `/dev/mapper/${name}`;
}

/**
 * Refuses to mount the disk over directories that contain unencrypted files.
 * @throws DiskError `disk-directory-used`
 */
export async function refuseUsedDirectories(
  { files }: Pick<DiskPorts, 'files'>,
  { directories }: DiskSettings,
): Promise<void> {
  const mounts = await readMounts(files);
  for (const { path, coversFiles } of directories) {
    if (coversFiles === true) continue;
    if (mountOf(mounts, path)?.point === path) continue;
    const [found] = await files.list(path);
    if (found !== undefined)
      throw new DiskError('disk-directory-used', `preparing the state disk: ${path} contains ${found}`);
  }
}

/** Creates the file system with the directories on the mapping, and leaves it mounted. */
export async function createFileSystem(
  ports: DiskPorts,
  settings: DiskSettings,
  signal: AbortSignal,
): Promise<void> {
  await run(ports, signal, 'mkfs.ext4', ...FILE_SYSTEM_OPTIONS, mappingOf(settings));
  await mountFileSystem(ports, settings, signal);
  for (const { name, mode } of settings.directories)
    await ports.files.makeDirectory(`${settings.mountPoint}/${name}`, mode);
  await run(ports, signal, 'sync', '--file-system', settings.mountPoint);
}

/** Mounts the file system and its directories, unless they are mounted already. */
export async function mountDisk(
  ports: DiskPorts,
  settings: DiskSettings,
  signal: AbortSignal,
): Promise<void> {
  await mountFileSystem(ports, settings, signal);
  for (const { name, path, mode } of settings.directories) {
    if (await isMountPoint(ports, path)) continue;
    // A disk that an older release has formatted lacks directories that were added since.
    await ports.files.makeDirectory(`${settings.mountPoint}/${name}`, mode);
    await ports.files.makeDirectory(path, mode);
    await run(ports, signal, 'mount', '--bind', `${settings.mountPoint}/${name}`, path);
  }
}

/** Removes the mounts that an interrupted formatting, or a reset without a restart of the machine, left behind. */
export async function unmountDisk(
  ports: DiskPorts,
  { mountPoint, directories }: DiskSettings,
  signal: AbortSignal,
): Promise<void> {
  for (const path of [...directories.map((directory) => directory.path), mountPoint])
    if (await isMountPoint(ports, path)) await run(ports, signal, 'umount', path);
}

async function mountFileSystem(ports: DiskPorts, settings: DiskSettings, signal: AbortSignal): Promise<void> {
  if (await isMountPoint(ports, settings.mountPoint)) return;
  await ports.files.makeDirectory(settings.mountPoint);
  const argv = ['mount', ...MOUNT_OPTIONS, mappingOf(settings), settings.mountPoint] as const;
  await run(ports, signal, ...argv);
}

async function isMountPoint({ files }: Pick<DiskPorts, 'files'>, path: string): Promise<boolean> {
  return mountOf(await readMounts(files), path)?.point === path;
}

async function run(
  { commands }: DiskPorts,
  signal: AbortSignal,
  ...argv: readonly [string, ...string[]]
): Promise<void> {
  await commands.run({ argv, timeoutMs: COMMAND_MS, signal });
}
