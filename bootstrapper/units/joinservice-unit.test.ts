import { expect, test } from '@jest/globals';
import {
  buildJoinserviceConfig,
  buildJoinserviceUnit,
  type JoinserviceSettings,
} from './joinservice-unit.ts';

const settings: JoinserviceSettings = {
  clusterId: 'c0ffee',
  nodeId: 'node-1',
  ownerKeys: ['b3duZXI='],
  address: '192.0.2.1',
  variant: 'tpm',
  etcdEndpoint: '127.0.0.1:2382',
  metricsUrl: 'http://127.0.0.1:2384/metrics',
  stores: ['/var/lib/cluster/store', '/seed'],
};
const credentials = {
  'cluster-ca.crt': '/s/ca.crt',
  'curator.crt': '/s/curator.crt',
  'curator.key': '/s/curator.key',
  'etcd-ca.crt': '/s/etcd-ca.crt',
  'etcd.crt': '/s/etcd.crt',
  'etcd.key': '/s/etcd.key',
  'apiserver-ca.crt': '/s/apiserver-ca.crt',
};
const unitOf = (credentialsSha256: string): string =>
  buildJoinserviceUnit({
    stateDir: '/var/lib/cluster',
    stores: settings.stores,
    credentials,
    credentialsSha256,
  });

test('buildJoinserviceConfig() names only credentials that the unit loads', () => {
  const config = buildJoinserviceConfig(settings);
  const named = [...config.matchAll(/"\/run\/credentials\/cluster-joinservice\.service\/([^"]+)"/g)].map(
    ([, name]) => name,
  );
  const loaded = [...unitOf('x').matchAll(/^LoadCredential=([^:]+):(.+)$/gm)];
  expect(named).toHaveLength(7);
  expect(loaded.map(([, name]) => name).sort()).toEqual([...named, 'config.json'].sort());
  expect(loaded.map(([, , path]) => path)).toEqual(expect.arrayContaining(Object.values(credentials)));
});

test('buildJoinserviceUnit() loads neither the machine key nor a CA key', () => {
  const loaded = [...unitOf('x').matchAll(/^LoadCredential=([^:]+):/gm)].map(([, name]) => name);
  expect(loaded.filter((name) => name?.endsWith('.key'))).toEqual(['curator.key', 'etcd.key']);
});

test('buildJoinserviceConfig() contains the owner keys of the provisioning', () => {
  expect(JSON.parse(buildJoinserviceConfig(settings))).toMatchObject({ ownerKeys: settings.ownerKeys });
});

test('buildJoinserviceConfig() contains the sockets for the evidence, for the signer and for the signer’s connections to etcd', () => {
  expect(JSON.parse(buildJoinserviceConfig(settings))).toMatchObject({
    listen: { host: '0.0.0.0', port: 9091 },
    join: {
      listen: { host: '0.0.0.0', port: 9090 },
      address: '192.0.2.1',
      evidence: { socket: '/run/cluster/evidence/evidence.sock', variant: 'tpm' },
      signer: {
        socket: '/run/cluster-signer/signer.sock',
        etcdPipe: '/run/cluster-joinservice/etcd.sock',
      },
    },
  });
});

test('buildJoinserviceConfig() listens at IPv6 addresses too on a node that others reach by IPv6', () => {
  expect(JSON.parse(buildJoinserviceConfig({ ...settings, address: '2001:db8::1' }))).toMatchObject({
    listen: { host: '::', port: 9091 },
    join: { listen: { host: '::', port: 9090 } },
  });
});

test('buildJoinserviceUnit() runs the service without root and capabilities, and hides the agent’s state from it', () => {
  const unit = unitOf('x');
  expect(unit).toMatch(/^User=cluster-joinservice$/m);
  expect(unit).toMatch(/^CapabilityBoundingSet=$/m);
  expect(unit).toMatch(/^TemporaryFileSystem=\/var\/lib\/cluster:ro$/m);
  expect([...unit.matchAll(/^Bind\w+=.*$/gm)].map(([line]) => line)).toEqual([
    'BindReadOnlyPaths=-/var/lib/cluster/store/blobs',
    'BindReadOnlyPaths=-/seed/blobs',
  ]);
  expect(unit).toMatch(/^ExecStart=.* \/run\/credentials\/cluster-joinservice\.service\/config\.json$/m);
});

test('buildJoinserviceUnit() lets systemd restart the service without limit', () => {
  expect(unitOf('x')).toMatch(/^StartLimitIntervalSec=0$[^]*^Restart=always$/m);
});

test('buildJoinserviceUnit() returns another unit file if the credentials have changed', () => {
  expect(unitOf('one')).toBe(unitOf('one'));
  expect(unitOf('one')).not.toBe(unitOf('two'));
});
