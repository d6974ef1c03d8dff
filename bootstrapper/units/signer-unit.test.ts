import { expect, test } from '@jest/globals';
import { FakeCommands, FakeUnits, MemoryFiles } from '../../internal/testing/index.ts';
import { buildSignerConfig, SIGNER_UNIT } from './signer-config.ts';
import { SignerUnit, type SignerUnitConfig } from './signer-unit.ts';

const signal = new AbortController().signal;
const config: SignerUnitConfig = {
  stateDir: '/var/lib/cluster',
  cluster: {
    ...{ clusterId: 'c0ffee', epoch: 1, ownerKeys: ['A'.repeat(43) + '='] },
    own: { nodeId: 'node-1', name: 'c1', address: '192.0.2.1' },
    networks: { serviceSubnet: '10.96.0.0/12', podSubnet: '10.244.0.0/16', apiServerSans: [] },
  },
  etcd: { caFile: '/s/ca.crt', certFile: '/s/client.crt', keyFile: '/s/client.key' },
  keys: { 'cluster-ca.key': '/s/cluster.key', 'kubernetes-ca.key': '/k/ca.key' },
  optionalKeys: { 'rotation.json': '/s/rotation.json' },
};

async function create() {
  const files = new MemoryFiles();
  for (const directory of ['/etc/cluster', '/s', '/k']) await files.makeDirectory(directory);
  const units = new FakeUnits();
  const commands = new FakeCommands();
  return { files, units, unit: new SignerUnit({ files, units, commands }) };
}

test('SignerUnit.start() installs a unit without network and capabilities that can read only its credentials', async () => {
  const { files, units, unit } = await create();
  await files.writeAtomic('/s/cluster.key', 'one');
  expect(await unit.start(config, signal)).toEqual(['kubernetes-ca.key']);
  const text = units.installed.get(SIGNER_UNIT) ?? '';
  expect(text).toMatch(/^User=cluster-signer$/m);
  expect(text).toMatch(/^Group=cluster-joinservice$/m);
  expect(text).toMatch(/^PrivateNetwork=yes$/m);
  expect(text).toMatch(/^StartLimitIntervalSec=0$[^]*^Restart=always$/m); // systemd restarts the signer, no matter how often it exits
  expect(text).toMatch(/^RestrictAddressFamilies=\nRestrictAddressFamilies=AF_UNIX$/m);
  expect(text).toMatch(/^CapabilityBoundingSet=$/m);
  expect(text).toMatch(/^InaccessiblePaths=-\/var\/lib\/cluster /m);
  expect(text).toContain('LoadCredential=cluster-ca.key:/s/cluster.key');
  expect(text).not.toContain('kubernetes-ca.key');
  // Only the signer reads and writes its state. The group of the join service has no access.
  expect(text).toMatch(/^StateDirectory=cluster-signer\nStateDirectoryMode=0700$/m);
  expect(JSON.parse(buildSignerConfig(config.cluster))).toMatchObject({
    keys: '/run/credentials/cluster-signer.service',
    memory: '/var/lib/cluster-signer',
    cluster: config.cluster,
  });
});

test('SignerUnit.start() restarts the signer only for a new or changed key', async () => {
  const { files, units, unit } = await create();
  await unit.start(config, signal);
  await unit.start(config, signal);
  expect(units.moves.filter((line) => line.startsWith('restart'))).toEqual([]);
  await files.writeAtomic('/k/ca.key', 'two');
  expect(await unit.start(config, signal)).toEqual(['cluster-ca.key']);
  await files.writeAtomic('/k/ca.key', 'three');
  await unit.start(config, signal);
  expect(units.moves.filter((line) => line.startsWith('restart'))).toHaveLength(2);
});

test('SignerUnit.start() restarts the signer for a changed configuration', async () => {
  const { units, unit } = await create();
  await unit.start(config, signal);
  await unit.start({ ...config, cluster: { ...config.cluster, epoch: 2 } }, signal);
  expect(units.moves.filter((line) => line.startsWith('restart'))).toHaveLength(1);
});

test('SignerUnit.start() loads an optional key once the key exists', async () => {
  const { files, units, unit } = await create();
  for (const path of Object.values(config.keys)) await files.writeAtomic(path, 'one');
  expect(await unit.start(config, signal)).toEqual([]);
  expect(units.installed.get(SIGNER_UNIT)).not.toContain('rotation.json');
  await files.writeAtomic('/s/rotation.json', 'two');
  expect(await unit.start(config, signal)).toEqual([]);
  expect(units.installed.get(SIGNER_UNIT)).toContain('LoadCredential=rotation.json:/s/rotation.json');
  expect(units.moves.filter((line) => line.startsWith('restart'))).toHaveLength(1);
});

test('SignerUnit.start() starts a failed signer at the fifth call, and does not call systemd in the calls before', async () => {
  const { units, unit } = await create();
  await unit.start(config, signal);
  await units.stop(SIGNER_UNIT);
  const before = units.moves.length;
  for (let look = 0; look < 4; look++) await unit.start(config, signal);
  expect(units.moves).toHaveLength(before);
  await unit.start(config, signal);
  expect(units.moves.slice(before)).toContainEqual(expect.stringMatching(/^start/));
});

test('SignerUnit.start() starts the signer at once after stop()', async () => {
  const { units, unit } = await create();
  await unit.start(config, signal);
  await unit.stop(signal);
  const before = units.moves.length;
  await unit.start(config, signal);
  expect(units.moves.slice(before)).toContainEqual(expect.stringMatching(/^start/));
});
