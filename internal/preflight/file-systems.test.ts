import { describe, expect, test } from '@jest/globals';
import { parseMountinfo } from '../platform/index.ts';
import { fileSystems, findUnwritable } from './file-systems.ts';

const DIRECTORIES = ['/var/lib/cluster', '/var/lib/cluster/etcd-state/data', '/var/log', '/opt/cluster'];

/** A line of mountinfo, of a mount with this ID on the root (20) unless it has another parent. */
const mount = (id: number, point: string, options = 'rw', more: { parent?: number; super?: string } = {}) =>
  `${id} ${more.parent ?? 20} 8:${id} / ${point} ${options} shared:${id} - ext4 /dev/sd${id} ${more.super ?? 'rw'}`;
const root = (options = 'rw', superOptions = 'rw'): string =>
  mount(20, '/', options, { parent: 1, super: superOptions });

describe('findUnwritable()', () => {
  test.each([
    { name: 'nothing on a writable file system', mounts: [root()], want: [] },
    { name: 'a read-only root', mounts: [root('ro')], want: DIRECTORIES },
    {
      name: 'a writable mount on a read-only root',
      mounts: [root('ro'), mount(30, '/var')],
      want: ['/opt/cluster'],
    },
    {
      name: 'a file system that the kernel made read-only after a disk error',
      mounts: [root(), mount(30, '/opt', 'rw', { super: 'ro,errors=remount-ro' })],
      want: ['/opt/cluster'],
    },
    {
      name: 'a file system of ext4 after an error, since Linux 6.15',
      mounts: [root(), mount(30, '/opt', 'rw', { super: 'rw,emergency_ro' })],
      want: ['/opt/cluster'],
    },
    {
      name: 'a read-only bind mount of one directory on a writable file system',
      mounts: [root(), mount(30, '/var/log', 'ro,relatime')],
      want: ['/var/log'],
    },
    {
      name: 'the latest of two mounts on one mount point',
      mounts: [root(), mount(30, '/opt'), mount(31, '/opt', 'ro', { parent: 30 })],
      want: ['/opt/cluster'],
    },
    {
      name: 'the data of etcd on a disk of its own',
      mounts: [root(), mount(30, '/var/lib/cluster/etcd-state', 'rw', { super: 'ro' })],
      want: ['/var/lib/cluster/etcd-state/data'],
    },
    {
      name: 'nothing in options that only contain the letters',
      mounts: [root('rw,nosuid', 'rw,errors=remount-ro,prjquota')],
      want: [],
    },
    { name: 'nothing in a file without mounts', mounts: [''], want: [] },
  ])('findUnwritable() finds $name', ({ mounts, want }) => {
    const found = findUnwritable(parseMountinfo(mounts.join('\n')), DIRECTORIES);
    expect(found.flatMap(({ directories }) => directories)).toEqual(want);
  });

  test('says which device is mounted where, once for each mount', () => {
    const mounts = parseMountinfo([root(), mount(30, '/var', 'rw', { super: 'ro' })].join('\n'));
    const [found, ...others] = findUnwritable(mounts, DIRECTORIES);
    expect(found).toMatchObject({ point: '/var', why: 'read-only: /dev/sd30 (ext4) on /var' });
    expect(others).toEqual([]);
  });

  test('tells a file system that ext4 has shut down from a read-only one', () => {
    const mounts = parseMountinfo(root('rw', 'rw,emergency_ro,shutdown'));
    expect(findUnwritable(mounts, ['/var/log'])).toMatchObject([{ why: 'shut down: /dev/sd20 (ext4) on /' }]);
  });
});

describe('fileSystems()', () => {
  test('names the directories of a read-only file system, without those that are in another one', () => {
    const unwritable = findUnwritable(parseMountinfo(mount(30, '/var', 'ro', { parent: 1 })), DIRECTORIES);
    expect(fileSystems({ unwritable })).toEqual([
      {
        ...{ subject: 'file system /var', figure: 'not writable', threshold: 'writable' },
        problem: {
          status: 'failed',
          cause: 'the file system of /var/lib/cluster, /var/log is read-only: /dev/sd30 (ext4) on /var',
        },
      },
    ]);
  });

  test('has a result for writable file systems too', () => {
    expect(fileSystems({ unwritable: [] })).toEqual([
      { subject: 'file systems', figure: 'writable', threshold: 'writable' },
    ]);
  });
});
