import { expect, test } from '@jest/globals';
import { parseClusterConfig, parseWrittenConfig } from './cluster-config.ts';
import { clusterPartOf } from './cluster-part.ts';
import { ConfigError } from './errors.ts';
import type { Problem } from './parse-located.ts';

const HEAD = `version: 1
name: prod
attestation: { variants: [machine-key], firstContact: fingerprint }
`;

function problemsOf(section: string): readonly Problem[] {
  try {
    parseWrittenConfig(HEAD + section, 'cluster.yaml');
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.details['problems'] as readonly Problem[];
  }
}

const networking = (podSubnet: string, serviceSubnet: string, more = ''): string =>
  `networking:\n  podSubnet: ${podSubnet}\n  serviceSubnet: ${serviceSubnet}\n${more}`;
const nodePrefix = (text: string): string => `extraArguments:\n  controllerManager: { ${text} }\n`;
const [POD_LINE, SERVICE_LINE] = [5, 6];

test.each([
  { name: 'the defaults', given: '' },
  {
    name: 'IPv4 first',
    given: networking('10.244.0.0/16,fd00:10:244::/56', '10.96.0.0/12,fd00:10:96::/108'),
  },
  { name: 'IPv6 only', given: networking('fd00:10:244::/56', 'fd00:10:96::/108') },
  {
    name: 'IPv6 first',
    given: networking('fd00:10:244::/56,10.244.0.0/16', 'fd00:10:96::/108,10.96.0.0/12'),
  },
  {
    name: 'other parts of nodes with IPv6 only',
    given: networking('fd00:10:244::/100', 'fd00:10:96::/120', nodePrefix('node-cidr-mask-size-ipv6: 116')),
  },
  {
    name: 'other parts of nodes',
    given: networking(
      '10.0.0.0/11,fd00:10:244::/100',
      '10.96.0.0/12,fd00:10:96::/120',
      nodePrefix('node-cidr-mask-size-ipv4: 26, node-cidr-mask-size-ipv6: 116'),
    ),
  },
  { name: 'an encrypted pod network', given: 'networking: { backend: wireguard }\n' },
  { name: 'the IPv4 argument in a cluster without IPv6', given: nodePrefix('node-cidr-mask-size-ipv4: 25') },
])('cluster.yaml may have $name', ({ given }) => {
  expect(problemsOf(given)).toEqual([]);
});

test.each([
  {
    name: 'pods of two families and services of one',
    pods: '10.244.0.0/16,fd00::/56',
    services: '10.96.0.0/12',
    line: SERVICE_LINE,
    says: 'IPv4 and then IPv6 networks',
  },
  {
    name: 'services of two families and pods of one',
    pods: '10.244.0.0/16',
    services: '10.96.0.0/12,fd00::/108',
    line: POD_LINE,
    says: 'IPv4 and then IPv6 networks',
  },
  {
    name: 'another order',
    pods: '10.244.0.0/16,fd00:1::/56',
    services: 'fd00::/108,10.96.0.0/12',
    line: SERVICE_LINE,
    says: 'IPv4 and then IPv6 networks, like those of podSubnet',
  },
  {
    name: 'pods of IPv6 and services of IPv4',
    pods: 'fd00::/56',
    services: '10.96.0.0/12',
    line: SERVICE_LINE,
    says: 'IPv6 networks, like those of podSubnet',
  },
  {
    name: 'services of IPv6 and pods of IPv4',
    pods: '10.244.0.0/16',
    services: 'fd00::/108',
    line: SERVICE_LINE,
    says: 'IPv4 networks, like those of podSubnet',
  },
  {
    name: 'pods of IPv6 and services of both families',
    pods: 'fd00:1::/56',
    services: 'fd00::/108,10.96.0.0/12',
    line: POD_LINE,
    says: 'IPv6 and then IPv4 networks, like those of serviceSubnet',
  },
  {
    name: 'a network of IPv4-mapped addresses',
    pods: '::ffff:10.0.0.0/112',
    services: 'fd00::/108',
    line: POD_LINE,
    says: 'unique local or global',
  },
  {
    name: 'two networks of one family',
    pods: '10.244.0.0/16,10.245.0.0/16',
    services: '10.96.0.0/12',
    line: POD_LINE,
    says: 'both of these are IPv4',
  },
  {
    name: 'three networks',
    pods: '10.244.0.0/16,fd00::/56,fd01::/56',
    services: '10.96.0.0/12,fd02::/108',
    line: POD_LINE,
    says: 'one IPv4 and one IPv6 network',
  },
  {
    name: 'a space',
    pods: '"10.244.0.0/16, fd00::/56"',
    services: '10.96.0.0/12,fd02::/108',
    line: POD_LINE,
    says: 'no spaces',
  },
  {
    name: 'services of more than 20 bits of IPv6',
    pods: '10.244.0.0/16,fd00::/56',
    services: '10.96.0.0/12,fd02::/107',
    line: SERVICE_LINE,
    says: 'between /108 and /120',
  },
  {
    name: 'services of more than 20 bits of IPv4',
    pods: '10.244.0.0/16',
    services: '10.0.0.0/11',
    line: SERVICE_LINE,
    says: 'between /12 and /24',
  },
  {
    name: 'a pod network of more than 2^16 nodes',
    pods: '10.244.0.0/16,fd00::/47',
    services: '10.96.0.0/12,fd02::/108',
    line: POD_LINE,
    says: 'between /48 and /64, unless',
  },
  {
    name: 'a pod network that is smaller than the part of a node',
    pods: '10.244.0.0/16,fd00::/80',
    services: '10.96.0.0/12,fd02::/108',
    line: POD_LINE,
    says: 'between /48 and /64, unless',
  },
  {
    name: 'host bits in the second network',
    pods: '10.244.0.0/16,fd00::1/56',
    services: '10.96.0.0/12,fd02::/108',
    line: POD_LINE,
    says: 'host bits',
  },
  {
    name: 'link-local addresses',
    pods: '10.244.0.0/16,fe80::/56',
    services: '10.96.0.0/12,fd02::/108',
    line: POD_LINE,
    says: 'unique local or global',
  },
  {
    name: 'IPv6 networks that overlap',
    pods: '10.244.0.0/16,fd00::/56',
    services: '10.96.0.0/12,fd00::/108',
    line: SERVICE_LINE,
    says: 'does not overlap podSubnet fd00::/56',
  },
])('cluster.yaml may not have $name', ({ pods, services, line, says }) => {
  expect(problemsOf(networking(pods, services))).toEqual([
    expect.objectContaining({
      line,
      column: expect.any(Number) as unknown,
      message: expect.stringContaining(says) as unknown,
    }),
  ]);
});

test('a problem of a key that is left out has the position of its section', () => {
  expect(problemsOf('networking: { podSubnet: "10.244.0.0/16,fd00::/56" }\n')).toEqual([
    expect.objectContaining({ path: 'networking.serviceSubnet', line: 4 }),
  ]);
});

const dual = networking('10.244.0.0/16,fd00::/56', '10.96.0.0/12,fd02::/108');
test.each([
  {
    name: 'the common argument in a cluster with IPv6',
    given: dual,
    argument: 'node-cidr-mask-size: 25',
    says: 'left out',
  },
  {
    name: 'the IPv6 argument in a cluster without IPv6',
    given: '',
    argument: 'node-cidr-mask-size-ipv6: 72',
    says: 'podSubnet has no IPv6 network',
  },
  {
    name: 'the IPv4 argument in a cluster with IPv6 only',
    given: networking('fd00::/56', 'fd02::/108'),
    argument: 'node-cidr-mask-size-ipv4: 25',
    says: 'podSubnet has no IPv4 network',
  },
  {
    name: 'two arguments for IPv4',
    given: '',
    argument: 'node-cidr-mask-size: 25, node-cidr-mask-size-ipv4: 25',
    says: 'is set too',
  },
  {
    name: 'a part of a node that is the whole network',
    given: dual,
    argument: 'node-cidr-mask-size-ipv6: 56',
    says: 'longer than the prefix of podSubnet, /56',
  },
  {
    name: 'parts that are too small for the network',
    given: dual,
    argument: 'node-cidr-mask-size-ipv6: 73',
    says: 'at most 72',
  },
  {
    name: 'parts that are too small for an IPv4 network',
    given: networking('10.0.0.0/9', '192.168.0.0/16'),
    argument: 'node-cidr-mask-size: 26',
    says: 'at most 25',
  },
])('extraArguments may not have $name', ({ given, argument, says }) => {
  expect(problemsOf(given + nodePrefix(argument))).toEqual([
    expect.objectContaining({
      path: expect.stringContaining('extraArguments.controllerManager.node-cidr-mask-size') as unknown,
      message: expect.stringContaining(says) as unknown,
    }),
  ]);
});

const ipv6Only = networking('fd00::/56', 'fd02::/108');
test.each([
  { name: 'a name', given: ipv6Only, endpoint: 'api.example.org:6443' },
  { name: 'an IPv6 address', given: ipv6Only, endpoint: '[2001:db8::1]:6443' },
  { name: 'an IPv4 address in a cluster with both families', given: dual, endpoint: '192.0.2.1:6443' },
])('apiServer.endpoint may be $name', ({ given, endpoint }) => {
  expect(problemsOf(`${given}apiServer: { endpoint: "${endpoint}" }\n`)).toEqual([]);
});

test('apiServer.endpoint may not be an IPv4 address in a cluster with IPv6 only', () => {
  expect(problemsOf(`${ipv6Only}apiServer: { endpoint: "192.0.2.1:6443" }\n`)).toEqual([
    expect.objectContaining({ path: 'apiServer.endpoint', line: SERVICE_LINE + 1 }),
  ]);
});

test('the part of the configuration that the cluster stores keeps both networks as they are', () => {
  const part = clusterPartOf(parseWrittenConfig(HEAD + dual, 'cluster.yaml')) as {
    readonly networking: object;
  };
  expect(part.networking).toEqual({
    podSubnet: '10.244.0.0/16,fd00::/56',
    serviceSubnet: '10.96.0.0/12,fd02::/108',
  });
  expect(clusterPartOf(parseClusterConfig(JSON.stringify(part), 'x'))).toEqual(part);
});

test('cluster.yaml may not have a backend of flannel without flannel, nor one that flannel does not have here', () => {
  expect(problemsOf('networking:\n  plugin: none\n  backend: wireguard\n')).toMatchObject([
    { path: 'networking.backend', line: 6, message: expect.stringContaining('left out') },
  ]);
  expect(problemsOf('networking:\n  plugin: none\n  backend: vxlan\n')).toEqual([]);
  expect(problemsOf('networking:\n  backend: wireguard-native\n')).toMatchObject([
    { path: 'networking.backend', line: 5 },
  ]);
});
