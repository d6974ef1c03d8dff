import { expect, test } from '@jest/globals';
import type { Role } from '../../internal/role/index.ts';
import { FakeClock, FakeUnits, MemoryFiles, settle, superviseForTest } from '../../internal/testing/index.ts';
import { exporterWorker } from './exporter-worker.ts';
import { membership } from './fake-node.ts';
import { createFakeRoleValues } from './fake-role-values.ts';

const UNIT = 'cluster-exporter.service';
const KUBELET = '/var/lib/cluster/kubernetes';
const WORKER: readonly Role[] = ['KubernetesWorker'];
const CONTROL_PLANE: readonly Role[] = ['ConsensusMember', 'KubernetesController'];
const configuration = (exporter: boolean): string => JSON.stringify({ monitoring: { exporter } });

async function createNode() {
  const values = createFakeRoleValues();
  const files = new MemoryFiles();
  for (const directory of ['/etc', KUBELET]) await files.makeDirectory(directory);
  for (const name of ['kubelet-serving.crt', 'kubelet-serving.key', 'kubernetes-ca.crt'])
    await files.writeAtomic(`${KUBELET}/${name}`, name);
  const [units, clock] = [new FakeUnits(), new FakeClock()];
  values.clusterMembership.set(membership);
  values.localRoles.set(new Set(WORKER));
  const worker = exporterWorker({ reads: values, files, units, clock });
  const config = async (): Promise<unknown> =>
    JSON.parse(Buffer.from((await files.read('/etc/cluster-exporter/config.json', 8192)) ?? '{}').toString());
  return { values, files, units, clock, worker, config };
}

test('a node runs an exporter only if a signed configuration enables it; an exporter of an earlier run keeps running until the configuration is known', async () => {
  const { values, units, worker } = await createNode();
  units.active.add(UNIT);
  await using _tree = superviseForTest(worker);
  await settle();
  expect(units.moves).toEqual([]);
  values.signedConfiguration.set('{}');
  await settle();
  expect(units.moves).toEqual([`stop ${UNIT}`]);
});

test('a section in the format of a later version starts no exporter', async () => {
  const { values, units, worker } = await createNode();
  values.signedConfiguration.set('{"monitoring":{"exporter":"everybody"}}');
  await using _tree = superviseForTest(worker);
  await settle();
  expect(units.moves).toEqual([]);
});

test('the exporter starts and stops with the configuration', async () => {
  const { values, units, worker, config, clock } = await createNode();
  values.signedConfiguration.set(configuration(true));
  await using _tree = superviseForTest(worker, { clock });
  await settle();
  expect(units.moves).toEqual([`start ${UNIT}`]);
  expect(await config()).toEqual({
    listen: { host: '0.0.0.0', port: 9097 },
    certFile: `/run/credentials/${UNIT}/cert`,
    keyFile: `/run/credentials/${UNIT}/key`,
    apiServer: 'https://127.0.0.1:6445',
    apiServerCaFile: `/run/credentials/${UNIT}/apiServersCa`,
    isControlPlane: false,
  });
  values.signedConfiguration.set(configuration(false));
  await settle();
  await clock.advance(1_000);
  await settle();
  expect(units.moves).toEqual([`start ${UNIT}`, `stop ${UNIT}`]);
});

test('the exporter listens at IPv6 addresses too on a node that others reach by IPv6', async () => {
  const { values, worker, config, clock } = await createNode();
  values.clusterMembership.set({ ...membership, nodeAddress: '2001:db8::9' });
  values.signedConfiguration.set(configuration(true));
  await using _tree = superviseForTest(worker, { clock });
  await settle();
  expect(await config()).toMatchObject({ listen: { host: '::', port: 9097 } });
});

test('the exporter is restarted within a minute after a renewed certificate, and at once when the roles of the node change', async () => {
  const { values, files, units, clock, worker, config } = await createNode();
  values.signedConfiguration.set(configuration(true));
  await using _tree = superviseForTest(worker, { clock });
  await settle();
  await clock.advance(60_000);
  expect(units.moves).toEqual([`start ${UNIT}`]);
  await files.writeAtomic(`${KUBELET}/kubelet-serving.crt`, 'renewed');
  await clock.advance(60_000);
  expect(units.moves).toEqual([`start ${UNIT}`, `restart ${UNIT}`]);
  values.localRoles.set(new Set(CONTROL_PLANE));
  await settle();
  expect(units.moves).toHaveLength(3);
  expect(await config()).toMatchObject({ isControlPlane: true });
});

test('the exporter waits for the certificate of the kubelet', async () => {
  const { values, files, units, clock, worker } = await createNode();
  await files.remove(`${KUBELET}/kubelet-serving.crt`);
  values.signedConfiguration.set(configuration(true));
  await using tree = superviseForTest(worker, { clock });
  await settle();
  expect(units.moves).toEqual([]);
  expect(tree.at('root.follow').note).toContain('kubelet-serving.crt');
});

test('the worker checks an unchanged exporter every five minutes, and starts it if it does not run', async () => {
  const { values, units, clock, worker } = await createNode();
  values.signedConfiguration.set(configuration(true));
  await using _tree = superviseForTest(worker, { clock });
  await settle();
  units.active.delete(UNIT);
  for (let minute = 1; minute < 5; minute++) await clock.advance(60_000);
  expect(units.moves).toEqual([`start ${UNIT}`]);
  await clock.advance(60_000);
  expect(units.moves).toEqual([`start ${UNIT}`, `start ${UNIT}`]);
});
