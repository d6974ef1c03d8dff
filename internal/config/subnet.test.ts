import { describe, expect, test } from '@jest/globals';
import { addressIn, familiesOf, isOverlapping, subnetsFrom } from './subnet.ts';

const range = (text: string) => {
  const [found, ...others] = subnetsFrom(text) ?? [];
  if (found === undefined || others.length > 0) throw new TypeError(text);
  return found;
};

describe('subnetsFrom()', () => {
  test.each([
    { given: '198.19.0.0/17', family: 'IPv4', prefix: 17, last: '198.19.127.255', at: 32767 },
    { given: '2001:2:0:8000::/56', family: 'IPv6', prefix: 56, last: '2001:2:0:8000::ffff', at: 65_535 },
    { given: 'FD00:10::/108', family: 'IPv6', prefix: 108, last: 'fd00:10::f:ffff', at: 1_048_575 },
    { given: 'fd00::192.0.2.0/120', family: 'IPv6', prefix: 120, last: 'fd00::c000:2ff', at: 255 },
  ])('reads $given', ({ given, family, prefix, last, at }) => {
    const found = range(given);
    expect(found).toMatchObject({ text: given, family, prefix });
    expect(addressIn(found, at)).toBe(last);
  });

  test.each([
    ...['', '10.0.0.0', '10.0.0.0/33', '10.0.0.0/-1', '10.0.0.0/016x', '010.0.0.0/8'],
    ...['fd00::', 'fd00::/129', 'fd00::%eth0/64', 'fd00:::/64', '[fd00::]/64', 'fd00::/64/1'],
  ])('refuses %j', (given) => {
    expect(subnetsFrom(given)).toBeUndefined();
  });
});

test('subnetsFrom() ignores host bits, and says that there are some', () => {
  const [four, six] = subnetsFrom('10.97.3.4/12,fd00::1/64') ?? [];
  expect(four && addressIn(four, 1)).toBe('10.96.0.1');
  expect([four?.hasHostBits, six?.hasHostBits, range('fd00::/64').hasHostBits]).toEqual([true, true, false]);
});

test('subnetsFrom() reads one or two networks, and familiesOf() their order', () => {
  expect(subnetsFrom('10.0.0.0/16')?.map(({ text }) => text)).toEqual(['10.0.0.0/16']);
  expect(familiesOf('fd00::/56,10.0.0.0/16')).toEqual(['IPv6', 'IPv4']);
  for (const text of ['', ',', '10.0.0.0/16,', ',10.0.0.0/16', '10.0.0.0/16, fd00::/56', '10.0.0.0/16,x'])
    expect(familiesOf(text)).toEqual([]);
  expect(subnetsFrom('10.0.0.0/16,fd00::/56,10.1.0.0/16')).toBeUndefined();
});

test('isOverlapping() compares ranges of one family only', () => {
  expect(isOverlapping(range('fd00::/48'), range('fd00:0:0:1::/64'))).toBe(true);
  expect(isOverlapping(range('fd00::/64'), range('fd00:0:0:1::/64'))).toBe(false);
  // ::a00:0 and 10.0.0.0 are the same number.
  expect(isOverlapping(range('10.0.0.0/16'), range('::a00:0/112'))).toBe(false);
});
