import { expect, test } from '@jest/globals';
import { FakeClock, FakeUnits, MemoryFiles, settle, superviseForTest } from '../../internal/testing/index.ts';
import type { Role } from '../../internal/role/index.ts';
import type { Membership } from '../membership/index.ts';
import { relayWorker } from './relay-worker.ts';
import { createFakeRoleValues } from './fake-role-values.ts';

const UNIT = 'cluster-relay.service';
const membership: Membership = {
  ...{ clusterId: 'a'.repeat(32), clusterName: 'blue', nodeId: 'node-9', nodeName: 'n9' },
  ...{ nodeAddress: '198.51.100.9', nodeCertPem: '', clusterCaPem: '', epoch: 1 },
  directory: [{ nodeId: 'node-1', host: '198.51.100.1' }],
};
const WORKER: readonly Role[] = ['KubernetesWorker'];
const CONTROL_PLANE: readonly Role[] = ['ConsensusMember', 'KubernetesController'];

async function createRelay(roles: readonly Role[], nodeAddress = membership.nodeAddress) {
  const values = createFakeRoleValues();
  const files = new MemoryFiles();
  await files.makeDirectory('/etc');
  const units = new FakeUnits();
  const clock = new FakeClock();
  const worker = relayWorker({ reads: values, ports: { files, units, clock } });
  values.clusterMembership.set({ ...membership, nodeAddress });
  values.localRoles.set(new Set(roles));
  const readRules = async (): Promise<readonly RelayRule[]> => {
    const text = Buffer.from((await files.read('/etc/cluster-relay/config.json', 8192)) ?? '{}').toString();
    return (JSON.parse(text) as { readonly passages: readonly RelayRule[] }).passages;
  };
  const podsHaveStarted = async (): Promise<void> => {
    await settle();
    await clock.advance(15_000);
    await settle();
  };
  return { values, units, worker, readRules, podsHaveStarted };
}

interface RelayRule {
  readonly listen: unknown;
  readonly upstreams: readonly { readonly host: string; readonly port: number }[];
  readonly limits: unknown;
}

test('a worker relays connections to the curators and join services of the current control planes, and follows changes without a restart', async () => {
  const { values, units, worker, readRules, podsHaveStarted } = await createRelay(WORKER);
  await using _tree = superviseForTest(worker);
  await settle();
  expect(units.active.has(UNIT)).toBe(false);
  await podsHaveStarted();
  const limits = { connections: 128, perSource: 16, idleMs: 60_000, halfOpenMs: 10_000, lifeMs: 600_000 };
  expect(await readRules()).toEqual([
    {
      listen: { host: '0.0.0.0', port: 9093 },
      upstreams: [{ host: '198.51.100.1', port: 9091 }],
      limits,
      announcesClients: true,
    },
    {
      listen: { host: '0.0.0.0', port: 9094 },
      upstreams: [{ host: '198.51.100.1', port: 9090 }],
      limits,
      announcesClients: true,
    },
  ]);
  expect(units.active.has(UNIT)).toBe(true);
  const [unseen, seen] = [false, true].map((curator, index) => ({
    ...{ nodeId: `node-${index + 2}`, host: `198.51.100.${index + 2}` },
    ...{ curator, apiServer: true },
  }));
  if (unseen === undefined || seen === undefined) throw new TypeError('two nodes');
  values.clusterDirectory.set([unseen, seen]);
  await settle();
  expect((await readRules()).map(({ upstreams }) => upstreams.map(({ host }) => host))).toEqual([
    ['198.51.100.3', '198.51.100.2'],
    ['198.51.100.3', '198.51.100.2'],
  ]);
  expect(units.moves.filter((move) => /^(stop|restart)/.test(move))).toEqual([]);
});

test('a control plane runs no relay, not even after it was a worker node', async () => {
  const { values, units, worker, podsHaveStarted } = await createRelay(WORKER);
  await using tree = superviseForTest(worker);
  await podsHaveStarted();
  expect(units.active.has(UNIT)).toBe(true);
  values.localRoles.set(new Set(CONTROL_PLANE));
  await settle();
  expect(units.active.has(UNIT)).toBe(false);
  expect(tree.at('root').note).toBe('idle: this node is a control plane');
  values.localRoles.set(new Set(WORKER));
  await podsHaveStarted();
  expect(units.active.has(UNIT)).toBe(true);
});

test('a relay listens at IPv6 addresses too on a node that others reach by IPv6', async () => {
  const { worker, readRules, podsHaveStarted } = await createRelay(WORKER, '2001:db8::9');
  await using _tree = superviseForTest(worker);
  await podsHaveStarted();
  expect((await readRules()).map(({ listen }) => listen)).toEqual([
    { host: '::', port: 9093 },
    { host: '::', port: 9094 },
  ]);
});
