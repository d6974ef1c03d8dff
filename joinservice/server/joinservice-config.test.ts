import { describe, expect, test } from '@jest/globals';
import { parseJoinserviceConfig } from './joinservice-config.ts';

const good = {
  version: 1,
  clusterId: 'c0ffee',
  nodeId: 'node-1',
  listen: { host: '0.0.0.0', port: 9091 },
  clusterCaFile: '/c/ca.crt',
  certFile: '/c/node.crt',
  keyFile: '/c/node.key',
  stores: ['/s'],
  etcd: {
    endpoints: ['127.0.0.1:2379'],
    caFile: '/c/etcd-ca.crt',
    certFile: '/c/etcd.crt',
    keyFile: '/c/etcd.key',
    metricsUrl: 'http://127.0.0.1:2381/metrics',
  },
};

test('parseJoinserviceConfig() reads what the agent writes, and freezes it', () => {
  const config = parseJoinserviceConfig('x', JSON.stringify(good));
  expect(config).toEqual(good);
  expect(Object.isFrozen(config)).toBe(true);
});

describe('parseJoinserviceConfig() refuses', () => {
  test.each([
    { name: 'an empty file', given: '' },
    { name: 'text that is not JSON', given: '{' },
    { name: 'an unknown key', given: JSON.stringify({ ...good, extra: 1 }) },
    { name: 'no etcd endpoint', given: JSON.stringify({ ...good, etcd: { ...good.etcd, endpoints: [] } }) },
    { name: 'a relative path', given: JSON.stringify({ ...good, keyFile: 'node.key' }) },
    { name: 'an invalid port', given: JSON.stringify({ ...good, listen: { host: 'x', port: 65536 } }) },
    { name: 'another version', given: JSON.stringify({ ...good, version: 2 }) },
  ])('$name', ({ given }) => {
    expect(() => parseJoinserviceConfig('/etc/x.json', given)).toThrow(
      expect.objectContaining({ code: 'joinservice-config-invalid', message: 'reading /etc/x.json' }),
    );
  });
});
