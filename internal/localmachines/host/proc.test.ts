import { expect, test } from '@jest/globals';
import { hasCapability, isZombie, parseNamespacePids, parseProcessCgroups } from './proc.ts';

test('parseNamespacePids() returns the process ids from the outermost namespace inwards', () => {
  expect(parseNamespacePids('Name:\tsystemd\nNSpid:\t21139\t1\nNSsid:\t1\t1\n')).toEqual([21139, 1]);
  expect(parseNamespacePids('Name:\told kernel\n')).toEqual([]);
});

test('isZombie() recognizes processes that have ended and are not collected yet', () => {
  expect(isZombie('Name:\tx\nState:\tZ (zombie)\n')).toBe(true);
  expect(isZombie('Name:\tx\nState:\tX (dead)\n')).toBe(true);
  expect(isZombie('Name:\tZ\nState:\tS (sleeping)\n')).toBe(false);
});

test('hasCapability() reads one bit of the effective capabilities', () => {
  const without = 'CapPrm:\t000001fffeffffff\nCapEff:\t000001fffeffffff\n';
  expect(hasCapability(without, 24)).toBe(false);
  expect(hasCapability(without, 23)).toBe(true);
  expect(hasCapability(without, 40)).toBe(true);
  expect(hasCapability('', 0)).toBe(false);
});

test('parseProcessCgroups() keeps colons in paths', () => {
  const text = '9:name=systemd:/a:b\n4:memory:/init.scope\n0::/x\n';
  expect([...parseProcessCgroups(text)]).toEqual([
    ['name=systemd', '/a:b'],
    ['memory', '/init.scope'],
    ['', '/x'],
  ]);
});
