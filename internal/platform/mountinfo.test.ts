import { describe, expect, test } from '@jest/globals';
import { mountOf, parseMountinfo, whyUnwritable } from './mountinfo.ts';

describe('parseMountinfo()', () => {
  test('reads points, types and options, with and without optional fields', () => {
    const text = [
      '36 35 98:0 / /mnt2 rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue',
      '42 27 0:4 net:[4026532177] /run/cluster-mini/clu1/switch rw - nsfs nsfs rw',
      '31 25 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct',
      '',
    ].join('\n');
    expect(parseMountinfo(text)).toEqual([
      {
        ...{ id: '36', parentId: '35' },
        device: '98:0',
        point: '/mnt2',
        root: '/',
        type: 'ext3',
        source: '/dev/root',
        options: ['rw', 'noatime'],
        superOptions: ['rw', 'errors=continue'],
      },
      {
        ...{ id: '42', parentId: '27' },
        device: '0:4',
        point: '/run/cluster-mini/clu1/switch',
        root: 'net:[4026532177]',
        type: 'nsfs',
        source: 'nsfs',
        options: ['rw'],
        superOptions: ['rw'],
      },
      {
        ...{ id: '31', parentId: '25' },
        device: '0:28',
        point: '/sys/fs/cgroup/cpu,cpuacct',
        root: '/',
        type: 'cgroup',
        source: 'cgroup',
        options: ['rw'],
        superOptions: ['rw', 'cpu', 'cpuacct'],
      },
    ]);
  });

  test("returns paths without the kernel's escape sequences", () => {
    const [mount] = parseMountinfo('1 0 8:1 / /a\\040b\\011c\\134d rw - ext4 /dev/sd\\040a rw');
    expect(mount).toMatchObject({ point: '/a b\tc\\d', source: '/dev/sd a' });
  });

  test.each(['nonsense', '1 0 8:1 / /point rw ext4 /dev/sda rw', '1 0 8:1 / /point rw - ext4'])(
    'refuses %j, because a mount that cannot be parsed must not be missed',
    (line) => {
      expect(() => parseMountinfo(line)).toThrow(TypeError);
    },
  );
});

describe('mountOf()', () => {
  const mount = (id: number, parent: number, point: string): string =>
    `${id} ${parent} 8:${id} / ${point} rw - ext4 /dev/sd${id} rw`;
  const ROOT = mount(20, 1, '/');

  test.each([
    { name: 'the root, if nothing else is mounted', mounts: [ROOT], want: '20' },
    {
      name: 'the deepest of nested mounts',
      mounts: [ROOT, mount(30, 20, '/a'), mount(31, 30, '/a/b')],
      want: '31',
    },
    {
      name: 'the mount that was made later over its parent directory, and hides it',
      mounts: [ROOT, mount(30, 20, '/a/b'), mount(31, 20, '/a')],
      want: '31',
    },
    {
      name: 'the later of two mounts on the same point',
      mounts: [ROOT, mount(30, 20, '/a'), mount(31, 30, '/a')],
      want: '31',
    },
    {
      name: 'a mount that was made before the root, in an initramfs, and moved to it',
      mounts: [mount(18, 20, '/a'), ROOT],
      want: '18',
    },
    {
      name: 'the root on top of the rootfs of the kernel',
      mounts: ['1 1 0:2 / / rw - rootfs rootfs rw', ROOT],
      want: '20',
    },
    {
      name: 'no mount of a directory whose name the path only begins with',
      mounts: [ROOT, mount(30, 20, '/a/b/c')],
      want: '20',
    },
    { name: 'a mount in a chroot, whose root is no mount', mounts: [mount(30, 7, '/a')], want: '30' },
    { name: 'nothing without mounts', mounts: [], want: undefined },
    {
      name: 'an answer even if mounts refer to each other',
      mounts: [ROOT, mount(30, 20, '/a'), mount(20, 30, '/a/b')],
      want: '20',
    },
  ])('mountOf() finds $name', ({ mounts, want }) => {
    expect(mountOf(parseMountinfo(mounts.join('\n')), '/a/b/cc')?.id).toBe(want);
  });
});

describe('whyUnwritable()', () => {
  test.each([
    { options: 'rw,noatime', superOptions: 'rw,errors=remount-ro', want: undefined },
    { options: 'ro,noatime', superOptions: 'rw', want: 'read-only' },
    { options: 'rw', superOptions: 'ro', want: 'read-only' },
    { options: 'rw', superOptions: 'rw,emergency_ro', want: 'read-only' },
    { options: 'rw', superOptions: 'rw,shutdown', want: 'shut down' },
  ])('whyUnwritable() judges $options and $superOptions as $want', ({ options, superOptions, want }) => {
    const mounts = parseMountinfo(`1 0 8:1 /sub /point ${options} shared:1 - ext4 /dev/sda ${superOptions}`);
    expect(mounts.map(whyUnwritable)).toEqual([want]);
  });
});
