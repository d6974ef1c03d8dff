import { describe, expect, test } from '@jest/globals';
import { exceptionsOf, proxyEnvironment, proxySchema } from './proxy-schema.ts';

const networks = { podSubnet: '10.244.0.0/16', serviceSubnet: '10.96.0.0/16' };
const PROXY = 'http://proxy.example.org:3128';

describe('proxySchema', () => {
  test.each([
    ['a proxy without a port', { http: 'http://proxy.example.org' }],
    ['a proxy with a password', { http: 'http://ann:secret@proxy.example.org:3128' }],
    ['a proxy with a path', { https: 'http://proxy.example.org:3128/way' }],
    ['a proxy of another scheme', { http: 'socks5://proxy.example.org:1080' }],
    ['a proxy with a line break', { http: `${PROXY}\nEnvironment=LD_PRELOAD=/x` }],
    ['a proxy with a quotation mark', { http: `${PROXY}"` }],
    ['exceptions without a proxy', { noProxy: ['.example.org'] }],
    ['a wildcard as an exception', { http: PROXY, noProxy: ['*'] }],
    ['an exception with a comma', { http: PROXY, noProxy: ['a.example,b.example'] }],
    ['a proxy at text in brackets that is no IPv6 address', { http: 'http://[1:2]:3128' }],
    ['an exception in brackets', { http: PROXY, noProxy: ['[2001:db8::1]'] }],
    ['an IPv6 address with a zone as an exception', { http: PROXY, noProxy: ['fe80::1%eth0'] }],
    ['two networks as one exception', { http: PROXY, noProxy: ['2001:db8::/32,fd00::/8'] }],
    ['an unknown key', { http: PROXY, ftp: PROXY }],
  ])('refuses %s', (_, section) => {
    expect(proxySchema.safeParse(section).success).toBe(false);
  });

  test('accepts a proxy with exceptions of each kind', () => {
    const noProxy = ['registry.example.org', '.internal.example.org', '192.0.2.0/24', 'mirror:5000'];
    expect(proxySchema.parse({ http: PROXY, https: PROXY, noProxy })).toEqual({
      ...{ http: PROXY, https: PROXY, noProxy },
    });
  });

  test('accepts a proxy at an IPv6 address, with IPv6 exceptions as Go programs read them', () => {
    const given = { http: 'http://[2001:db8::5]:3128', noProxy: ['2001:db8::1', 'fd00::/8', '::1'] };
    expect(proxySchema.parse(given)).toEqual(given);
  });
});

test('the machine, pods, Services and API servers are never reached through the proxy', () => {
  const proxy = proxySchema.parse({ https: PROXY, noProxy: ['.example.org', 'localhost'] });
  expect(exceptionsOf({ proxy, ...networks, apiServers: ['api.example.net', '198.18.1.11'] })).toEqual([
    ...['localhost', '127.0.0.0/8', '::1', '.svc', '.cluster.local', '10.244.0.0/16', '10.96.0.0/16'],
    ...['api.example.net', '198.18.1.11', '.example.org'],
  ]);
});

test('a cluster without a proxy sets no variables', () => {
  const cluster = { proxy: proxySchema.parse({}), ...networks, apiServers: [] };
  expect(proxyEnvironment(cluster)).toEqual({});
  const proxy = proxySchema.parse({ https: PROXY });
  expect(proxyEnvironment({ ...cluster, proxy })).toEqual({
    ...{ HTTPS_PROXY: PROXY, NO_PROXY: exceptionsOf({ ...cluster, proxy }).join() },
  });
});
