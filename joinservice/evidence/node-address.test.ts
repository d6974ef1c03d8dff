import { describe, expect, test } from '@jest/globals';
import { canonicalAddress, whyAddressReserved } from './node-address.ts';

const settings = {
  serviceSubnet: '10.96.0.0/12',
  podSubnet: '10.244.0.0/16',
  apiServerSans: ['api.example.org', '203.0.113.5', '2001:DB8::5'],
  apiEndpoint: '203.0.113.6:6443',
};
const worker = { servesApi: false };

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
])('canonicalAddress($given)', ({ given, want }) => {
  expect(canonicalAddress(given)).toBe(want);
});

describe('whyAddressReserved()', () => {
  test.each([
    { name: 'the API’s service', given: '10.96.0.1' },
    { name: 'the last service', given: '10.111.255.255' },
    { name: 'a pod', given: '10.244.3.7' },
    { name: 'the operator’s balancer', given: '203.0.113.6' },
    { name: 'a name of the API', given: '203.0.113.5' },
    { name: 'a name of the API, written otherwise', given: '2001:db8::5' },
    { name: 'the machine itself', given: '127.0.0.1' },
    { name: 'the machine itself, IPv6', given: '::1' },
    { name: 'an IPv4 service in IPv6', given: '::ffff:a60:1' },
    { name: 'no address at all', given: '0.0.0.0' },
    { name: 'no address at all, IPv6', given: '::' },
    { name: 'a link', given: '169.254.1.1' },
    { name: 'a link, IPv6', given: 'fe80::1' },
    { name: 'everybody', given: '255.255.255.255' },
    { name: 'a group', given: 'ff02::1' },
  ])('refuses $given: $name', ({ given }) => {
    expect(whyAddressReserved(given, settings, worker)).toEqual(expect.any(String));
  });

  test.each(['192.0.2.1', '10.95.255.255', '10.112.0.0', '198.18.0.11', '2001:db8::6'])(
    '%s is a machine’s',
    (given) => {
      expect(whyAddressReserved(given, settings, worker)).toBeUndefined();
    },
  );

  test('lets a control plane have an address of the API, but not of a service', () => {
    expect(whyAddressReserved('203.0.113.5', settings, { servesApi: true })).toBeUndefined();
    expect(whyAddressReserved('10.96.0.1', settings, { servesApi: true })).toBeDefined();
  });
});
