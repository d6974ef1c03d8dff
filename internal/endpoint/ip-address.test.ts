import { describe, expect, test } from '@jest/globals';
import {
  canonicalAddress,
  holderOf,
  ipv6FromHex,
  ipv6Groups,
  ipv6Hex,
  listenHost,
  plainAddress,
} from './index.ts';

test.each([
  { given: '192.0.2.1', want: '192.0.2.1' },
  { given: '::ffff:192.0.2.1', want: '192.0.2.1' },
  { given: '::FFFF:192.0.2.1', want: '192.0.2.1' },
  { given: '2001:db8::1', want: '2001:db8::1' },
  { given: 'fe80::1%eth0', want: 'fe80::1' },
  { given: '', want: '' },
])('plainAddress() reads "$given" as "$want"', ({ given, want }) => {
  expect(plainAddress(given)).toBe(want);
});

test.each([
  { given: '192.0.2.1', want: '192.0.2.1' },
  { given: '2001:DB8:0::1', want: '2001:db8::1' },
  { given: '2001:db8::0:1', want: '2001:db8::1' },
  { given: '::FFFF:192.0.2.1', want: '::ffff:c000:201' },
  { given: 'fe80::1%eth0', want: undefined },
  { given: '192.0.2.1:80', want: undefined },
  { given: '192.0.2.01', want: undefined },
  { given: '', want: undefined },
  { given: 'n1', want: undefined },
])('canonicalAddress() reads "$given" as $want', ({ given, want }) => {
  expect(canonicalAddress(given)).toBe(want);
});

describe('the groups of an IPv6 address', () => {
  test.each([
    { given: '2001:db8::1', want: '2001:db8:0:0:0:0:0:1', short: '2001:db8::1' },
    { given: '2001:0DB8:0:0:0:0:0:00a1', want: '2001:db8:0:0:0:0:0:a1', short: '2001:db8::a1' },
    { given: '::', want: '0:0:0:0:0:0:0:0', short: '::' },
    { given: 'fd00::192.0.2.1', want: 'fd00:0:0:0:0:0:c000:201', short: 'fd00::c000:201' },
    { given: '1:2:3:4:5:6:7:8', want: '1:2:3:4:5:6:7:8', short: '1:2:3:4:5:6:7:8' },
  ])('ipv6Groups() reads "$given", and ipv6FromHex() writes "$short"', ({ given, want, short }) => {
    expect(ipv6Groups(given).join(':')).toBe(want);
    expect(ipv6FromHex(ipv6Hex(given))).toBe(short);
  });
});

test('holderOf() is an IPv4 address or an IPv6 /64', () => {
  expect(holderOf('::ffff:192.0.2.1')).toBe('192.0.2.1');
  expect(holderOf('2001:db8:0:1::1')).toBe(holderOf('2001:db8:0:1:ffff::2'));
  expect(holderOf('2001:db8:0:1::1')).not.toBe(holderOf('2001:db8:0:2::1'));
});

test('listenHost() is "::" only on a node that others reach by IPv6', () => {
  expect(listenHost('192.0.2.1')).toBe('0.0.0.0');
  expect(listenHost('2001:db8::1')).toBe('::');
});
