import { describe, expect, test } from '@jest/globals';
import { whyAddressReserved } from './node-address.ts';

const settings = {
  serviceSubnet: '10.96.0.0/12',
  podSubnet: '10.244.0.0/16',
  apiServerSans: ['api.example.org', '203.0.113.5', '2001:DB8::5'],
  apiEndpoint: '203.0.113.6:6443',
};
const worker = { servesApi: false };

describe('whyAddressReserved()', () => {
  test.each([
    { name: 'the service address of the Kubernetes API', given: '10.96.0.1' },
    { name: 'the last service address', given: '10.111.255.255' },
    { name: 'a pod', given: '10.244.3.7' },
    { name: 'the operator’s load balancer', given: '203.0.113.6' },
    { name: 'an address of the Kubernetes API', given: '203.0.113.5' },
    { name: 'an address of the Kubernetes API, in another notation', given: '2001:db8::5' },
    { name: 'the IPv4 loopback', given: '127.0.0.1' },
    { name: 'the IPv6 loopback', given: '::1' },
    { name: 'an IPv4 service address mapped to IPv6', given: '::ffff:a60:1' },
    { name: 'the unspecified IPv4 address', given: '0.0.0.0' },
    { name: 'the unspecified IPv6 address', given: '::' },
    { name: 'a link-local IPv4 address', given: '169.254.1.1' },
    { name: 'a link-local IPv6 address', given: 'fe80::1' },
    { name: 'the broadcast address', given: '255.255.255.255' },
    { name: 'a multicast address', given: 'ff02::1' },
  ])('whyAddressReserved() refuses $given: $name', ({ given }) => {
    expect(whyAddressReserved(given, settings, worker)).toEqual(expect.any(String));
  });

  test.each(['192.0.2.1', '10.95.255.255', '10.112.0.0', '198.18.0.11', '2001:db8::6'])(
    'whyAddressReserved() allows %s for a machine',
    (given) => {
      expect(whyAddressReserved(given, settings, worker)).toBeUndefined();
    },
  );

  test('whyAddressReserved() compares with both networks of a cluster with IPv4 and IPv6, and asks for its first family', () => {
    const both = {
      ...settings,
      serviceSubnet: '10.96.0.0/12,fd00:2::/108',
      podSubnet: '10.244.0.0/16,fd00:1::/56',
    };
    expect(whyAddressReserved('10.96.0.1', both, worker)).toMatch(/service subnet/);
    expect(whyAddressReserved('192.0.2.1', both, worker)).toBeUndefined();
    expect(whyAddressReserved('2001:db8::7', both, worker)).toMatch(/reached by IPv4/);
    const six = {
      ...settings,
      serviceSubnet: 'fd00:2::/108,10.96.0.0/12',
      podSubnet: 'fd00:1::/56,10.244.0.0/16',
    };
    expect(whyAddressReserved('192.0.2.1', six, worker)).toMatch(/reached by IPv6/);
    expect(whyAddressReserved('fd00:2::1', six, worker)).toMatch(/service subnet/);
    expect(whyAddressReserved('fd00:1::9', six, worker)).toMatch(/pod subnet/);
    expect(whyAddressReserved('2001:db8::7', six, worker)).toBeUndefined();
  });

  test('whyAddressReserved() lets a control plane have the address of the API, but not a service address', () => {
    expect(whyAddressReserved('203.0.113.5', settings, { servesApi: true })).toBeUndefined();
    expect(whyAddressReserved('10.96.0.1', settings, { servesApi: true })).toBeDefined();
  });
});
