import type { NetworkInterfaceInfo } from 'node:os';
import { expect, test } from '@jest/globals';
import { addressBeside, interfaceAddress } from './linux-machine.ts';

const link = (...addresses: readonly string[]): NetworkInterfaceInfo[] =>
  addresses.map((address) => ({
    address,
    family: address.includes(':') ? 'IPv6' : 'IPv4',
    internal: address === '::1',
    netmask: '',
    mac: '',
    cidr: null,
    ...(address.includes(':') ? { scopeid: 0 } : {}),
  })) as NetworkInterfaceInfo[];

const LINKS = {
  lo: link('127.0.0.1', '::1'),
  'flannel-v6.1': link('2001:db8:9::1'),
  eth0: link('198.51.100.1', '2001:db8:1::1'),
  eth1: link('fe80::1', '192.0.2.1', '2001:db8::1'),
};

test.each([
  { given: '192.0.2.1', want: '2001:db8::1', name: 'of the same interface, not link-local' },
  { given: '2001:db8::1', want: '192.0.2.1', name: 'of the other family' },
  { given: '203.0.113.1', want: '2001:db8:1::1', name: 'of any interface, if none has this address' },
])('addressBeside($given) is the address $name', ({ given, want }) => {
  expect(addressBeside(given, LINKS)).toBe(want);
});

test('addressBeside() finds nothing on a machine with one family, and no address of pods', () => {
  const { lo, eth1: _, eth0: __, ...pods } = LINKS;
  expect(addressBeside('192.0.2.1', { lo, ...pods, eth0: link('192.0.2.1', 'fe80::2') })).toBeUndefined();
});

test('interfaceAddress() is the first address that is not link-local', () => {
  const links = {
    'flannel.1': link('fe80::1', '10.244.1.0'),
    'flannel-v6.1': link('fe80::2', 'fd00:0:0:1::'),
  };
  expect(interfaceAddress('flannel.1', links)).toBe('10.244.1.0');
  expect(interfaceAddress('flannel-v6.1', links)).toBe('fd00:0:0:1::');
  expect(interfaceAddress('flannel-wg', links)).toBeUndefined();
});
