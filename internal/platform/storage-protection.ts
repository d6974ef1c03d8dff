import { readText, type FilePort } from '../file/index.ts';
import { mountOf, readMounts, type Mount } from './mountinfo.ts';

/** dm-crypt volumes of cryptsetup (LUKS and plain), by the UUID that it gives to the device mapper. */
const CRYPT_UUID = /^CRYPT-(?:LUKS[12]|PLAIN)-/;
/** Device-mapper stacks are a few layers deep; a deeper one counts as not encrypted. */
const MAX_LAYERS = 8;

/**
 * How the content of a directory is protected: on an encrypted block device, only in memory, or in the clear. A
 * directory that is not proved to be encrypted counts as in the clear.
 */
export type StorageProtection = 'encrypted' | 'memory' | 'clear';

/**
 * Returns how each directory is protected. Reads the mounts of this process and the device tree of the kernel: every
 * path from the file system down to a disk must lead through dm-crypt. File systems without a block device of their own
 * (overlay of a container, btrfs, NFS) count as in the clear.
 */
export async function readStorageProtection(
  files: Pick<FilePort, 'read' | 'list'>,
  directories: readonly string[],
): Promise<ReadonlyMap<string, StorageProtection>> {
  const mounts = await readMounts(files);
  const found = directories.map(async (directory) => {
    const mount = mountOf(mounts, directory);
    return [directory, mount === undefined ? 'clear' : await protectionOf(files, mount)] as const;
  });
  return new Map(await Promise.all(found));
}

async function protectionOf(
  files: Pick<FilePort, 'read' | 'list'>,
  { type, device }: Mount,
): Promise<StorageProtection> {
  if (type === 'tmpfs' || type === 'ramfs') return 'memory';
  if (!/^[1-9]\d*:\d+$/.test(device)) return 'clear';
  return (await isEncrypted(files, `/sys/dev/block/${device}`, 0)) ? 'encrypted' : 'clear';
}

async function isEncrypted(
  files: Pick<FilePort, 'read' | 'list'>,
  directory: string,
  layer: number,
): Promise<boolean> {
  if (layer > MAX_LAYERS) return false;
  if (CRYPT_UUID.test((await readText(files, `${directory}/dm/uuid`)) ?? '')) return true;
  const below = await files.list(`${directory}/slaves`);
  if (below.length === 0) return false;
  const each = below.map((name) => isEncrypted(files, `/sys/class/block/${name}`, layer + 1));
  return (await Promise.all(each)).every(Boolean);
}
