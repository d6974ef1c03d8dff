import { expect, test } from '@jest/globals';
import { MemoryFiles } from '../testing/index.ts';
import { readStorageProtection } from './storage-protection.ts';

const DIRECTORY = '/var/lib/cluster';
const LUKS = 'CRYPT-LUKS2-e69a2e662bc84695b85275f129bb9e54-state\n';

/** Files of a machine: its mounts, and device-mapper UUIDs and lower devices by path below /sys. */
async function machine(
  mounts: readonly string[],
  devices: Readonly<Record<string, { readonly uuid?: string; readonly slaves?: readonly string[] }>> = {},
): Promise<MemoryFiles> {
  const files = new MemoryFiles();
  const write = async (path: string, text: string): Promise<void> => {
    await files.makeDirectory(path.slice(0, path.lastIndexOf('/')));
    await files.writeAtomic(path, text);
  };
  await write('/proc/self/mountinfo', `${mounts.join('\n')}\n`);
  for (const [path, { uuid, slaves = [] }] of Object.entries(devices)) {
    if (uuid !== undefined) await write(`/sys/${path}/dm/uuid`, uuid);
    for (const slave of slaves) await write(`/sys/${path}/slaves/${slave}`, '');
  }
  return files;
}

const root = '20 1 8:1 / / rw - ext4 /dev/sda1 rw';
const on = (device: string, type = 'ext4'): string => `30 20 ${device} / ${DIRECTORY} rw - ${type} x rw`;

test.each([
  { name: 'a partition', given: machine([root]), want: 'clear' },
  { name: 'a machine without mounts', given: machine([]), want: 'clear' },
  {
    name: 'LUKS2',
    given: machine([root, on('253:0')], { 'dev/block/253:0': { uuid: LUKS, slaves: ['sdb'] } }),
    want: 'encrypted',
  },
  {
    name: 'LVM on LUKS2',
    given: machine([root, on('253:1')], {
      'dev/block/253:1': { uuid: 'LVM-x', slaves: ['dm-0'] },
      'class/block/dm-0': { uuid: LUKS, slaves: ['sdb'] },
    }),
    want: 'encrypted',
  },
  {
    name: 'LVM on LUKS2 and on a plain disk',
    given: machine([root, on('253:1')], {
      'dev/block/253:1': { uuid: 'LVM-x', slaves: ['dm-0', 'sdc'] },
      'class/block/dm-0': { uuid: LUKS, slaves: ['sdb'] },
    }),
    want: 'clear',
  },
  {
    name: 'dm-integrity alone',
    given: machine([root, on('253:0')], {
      'dev/block/253:0': { uuid: 'CRYPT-INTEGRITY-x', slaves: ['sdb'] },
    }),
    want: 'clear',
  },
  {
    name: 'devices that refer to each other',
    given: machine([root, on('253:0')], {
      'dev/block/253:0': { uuid: 'LVM-x', slaves: ['dm-0'] },
      'class/block/dm-0': { uuid: 'LVM-x', slaves: ['dm-0'] },
    }),
    want: 'clear',
  },
  { name: 'the overlay of a container', given: machine([root, on('0:40', 'overlay')]), want: 'clear' },
  { name: 'tmpfs', given: machine([root, on('0:41', 'tmpfs')]), want: 'memory' },
  {
    name: 'a plain mount above an encrypted one',
    given: machine([root, on('253:0'), on('8:2')], { 'dev/block/253:0': { uuid: LUKS } }),
    want: 'clear',
  },
  {
    name: 'an encrypted mount of a directory with a similar name',
    given: machine([root, `30 20 253:0 / ${DIRECTORY.slice(0, -1)} rw - ext4 x rw`], {
      'dev/block/253:0': { uuid: LUKS },
    }),
    want: 'clear',
  },
] as const)('readStorageProtection() judges $name as $want', async ({ given, want }) => {
  const found = await readStorageProtection(await given, [DIRECTORY]);
  expect(found).toEqual(new Map([[DIRECTORY, want]]));
});
