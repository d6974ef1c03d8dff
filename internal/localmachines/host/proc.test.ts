import { describe, expect, test } from '@jest/globals';
import { hasCapability, isZombie, parseMountinfo, parseNamespacePids, parseProcessCgroups } from './proc.ts';

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
        point: '/mnt2',
        root: '/',
        type: 'ext3',
        source: '/dev/root',
        superOptions: ['rw', 'errors=continue'],
      },
      {
        point: '/run/cluster-mini/clu1/switch',
        root: 'net:[4026532177]',
        type: 'nsfs',
        source: 'nsfs',
        superOptions: ['rw'],
      },
      {
        point: '/sys/fs/cgroup/cpu,cpuacct',
        root: '/',
        type: 'cgroup',
        source: 'cgroup',
        superOptions: ['rw', 'cpu', 'cpuacct'],
      },
    ]);
  });

  test('gives paths as they are, not as the kernel escapes them', () => {
    const [mount] = parseMountinfo('1 0 8:1 / /a\\040b\\011c\\134d rw - ext4 /dev/sd\\040a rw');
    expect(mount).toMatchObject({ point: '/a b\tc\\d', source: '/dev/sd a' });
  });

  test.each(['nonsense', '1 0 8:1 / /point rw ext4 /dev/sda rw', '1 0 8:1 / /point rw - ext4'])(
    'refuses %j: a mount that is not understood must not be missed',
    (line) => {
      expect(() => parseMountinfo(line)).toThrow(TypeError);
    },
  );
});

test('parseNamespacePids() gives the numbers from the outermost namespace inwards', () => {
  expect(parseNamespacePids('Name:\tsystemd\nNSpid:\t21139\t1\nNSsid:\t1\t1\n')).toEqual([21139, 1]);
  expect(parseNamespacePids('Name:\told kernel\n')).toEqual([]);
});

test('isZombie() knows the dead that are not collected yet', () => {
  expect(isZombie('Name:\tx\nState:\tZ (zombie)\n')).toBe(true);
  expect(isZombie('Name:\tx\nState:\tX (dead)\n')).toBe(true);
  expect(isZombie('Name:\tZ\nState:\tS (sleeping)\n')).toBe(false);
});

test('hasCapability() reads one bit of the effective set', () => {
  const without = 'CapPrm:\t000001fffeffffff\nCapEff:\t000001fffeffffff\n';
  expect(hasCapability(without, 24)).toBe(false);
  expect(hasCapability(without, 23)).toBe(true);
  expect(hasCapability(without, 40)).toBe(true);
  expect(hasCapability('', 0)).toBe(false);
});

test('parseProcessCgroups() keeps colons of paths', () => {
  const text = '9:name=systemd:/a:b\n4:memory:/init.scope\n0::/x\n';
  expect([...parseProcessCgroups(text)]).toEqual([
    ['name=systemd', '/a:b'],
    ['memory', '/init.scope'],
    ['', '/x'],
  ]);
});
