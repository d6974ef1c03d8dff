import { describe, expect, test } from '@jest/globals';
import { parseMountinfo } from './mountinfo.ts';

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
        device: '98:0',
        point: '/mnt2',
        root: '/',
        type: 'ext3',
        source: '/dev/root',
        options: ['rw', 'noatime'],
        superOptions: ['rw', 'errors=continue'],
      },
      {
        device: '0:4',
        point: '/run/cluster-mini/clu1/switch',
        root: 'net:[4026532177]',
        type: 'nsfs',
        source: 'nsfs',
        options: ['rw'],
        superOptions: ['rw'],
      },
      {
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
