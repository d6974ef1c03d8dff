import { afterEach, expect, test } from '@jest/globals';
import { SystemClock } from '../../internal/clock/index.ts';
import { put, type WatchEvent } from '../../internal/etcd/index.ts';
import { DiskFiles } from '../../internal/file/index.ts';
import {
  closeOpened,
  createMemoryLogger,
  findEtcdBinary,
  opened,
  ProcessUnits,
  temporaryDirectory,
} from '../../internal/testing/index.ts';
import { EtcdPair, type EtcdPairConfig, type RunningEtcdPair } from './etcd-pair.ts';
import { KUBERNETES_ETCD, STATE_ETCD } from './etcd-instances.ts';
import { connect, findFreePorts, noCommands } from './fake-member.ts';

const signal = new AbortController().signal;
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
afterEach(closeOpened);

const ports = async () => {
  const [client = 0, peer = 0, metrics = 0] = await findFreePorts(3);
  return { client, peer, metrics };
};

async function createNode() {
  const { path: stateDir } = opened(await temporaryDirectory());
  const units = opened(new ProcessUnits());
  const { log } = createMemoryLogger();
  const pair = new EtcdPair({
    ...{ files: new DiskFiles(), commands: noCommands, units, clock: new SystemClock(), log },
  });
  const config: EtcdPairConfig = {
    ...{ nodeId: 'node-1', address: '127.0.0.1', clusterId: 'c0ffee', createsCluster: true, peerHosts: [] },
    ports: { state: await ports(), kubernetes: await ports() },
    etcdBinary: await findEtcdBinary(stateDir),
    stateDir,
    readyTimeoutMs: 20_000,
  };
  const start = async (over: Partial<EtcdPairConfig> = {}): Promise<RunningEtcdPair> =>
    opened(await pair.start({ ...config, ...over }, signal));
  return { pair, config, units, start };
}

test('the API server may make all calls that it makes to an etcd of kubeadm, including Status', async () => {
  const { kubernetes } = await (await createNode()).start();
  const apiServer = await connect(kubernetes.client('apiserver'));
  expect((await apiServer.maintenance.status({ signal })).leaderId).not.toBe(0n);
  expect(await apiServer.members.list({ signal })).toHaveLength(1);
  await apiServer.commit({ when: [], then: [put('/registry/a', bytes('1'))] }, { signal });
  const { revision } = await apiServer.list('/registry/', { signal });
  await apiServer.commit({ when: [], then: [put('compact_rev_key', bytes('0'))] }, { signal });
  await apiServer.compact(revision, { signal });
  const lease = await apiServer.grantLease(60, { signal });
  await apiServer.revokeLease(lease, { signal });
}, 30_000);

test('an idle watch of the API server gets progress notifications within seconds', async () => {
  const { kubernetes } = await (await createNode()).start();
  const apiServer = await connect(kubernetes.client('apiserver'));
  const { revision } = await apiServer.list('/registry/', { signal });
  await kubernetes.admin.commit({ when: [], then: [put('/elsewhere', bytes('x'))] }, { signal });
  const from = { afterRevision: revision, withProgress: true } as const;
  const events = apiServer.watch('/registry/', { signal, ...from })[Symbol.asyncIterator]();
  const { value }: { value?: WatchEvent } = (await events.next()) as { value?: WatchEvent };
  expect(value).toMatchObject({ kind: 'progress', revision: revision + 1n });
  await events.return?.();
}, 30_000);

test('each etcd refuses a client certificate of the other etcd in the TLS handshake', async () => {
  const { state, kubernetes } = await (await createNode()).start();
  const others = [
    ...['root', 'curator', 'signer'].map(
      (name) => [state.client(name as 'root'), kubernetes.client('root')] as const,
    ),
    ...['root', 'apiserver'].map(
      (name) => [kubernetes.client(name as 'root'), state.client('root')] as const,
    ),
  ];
  for (const [other, at] of others) {
    const client = await connect(other, at);
    await expect(client.get('/cluster/meta/cluster', { signal, timeoutMs: 2_000 })).rejects.toMatchObject({
      code: 'etcd-unavailable',
    });
  }
}, 30_000);

test('start() starts a killed member with its data and does not restart the other member', async () => {
  const { start, units } = await createNode();
  const first = await start();
  await first.state.admin.commit({ when: [], then: [put('kept', bytes('x'))] }, { signal });
  const { mainPid } = await units.status(KUBERNETES_ETCD.unit);
  await units.kill(STATE_ETCD.unit);
  const second = await start();
  expect((await second.state.admin.get('kept', { signal }))?.key).toBe('kept');
  expect((await units.status(KUBERNETES_ETCD.unit)).mainPid).toBe(mainPid);
}, 30_000);

test('start() rejects when one etcd fails, and a repeated start() succeeds', async () => {
  const { start, config, units } = await createNode();
  const taken = {
    ...config.ports,
    kubernetes: { ...config.ports.kubernetes, peer: config.ports.state.peer },
  };
  await expect(start({ ports: taken, readyTimeoutMs: 2_000 })).rejects.toMatchObject({
    code: 'consensus-not-ready',
  });
  await units.kill(KUBERNETES_ETCD.unit);
  await units.kill(STATE_ETCD.unit);
  const running = await start();
  expect(await running.kubernetes.admin.members.list({ signal })).toHaveLength(1);
}, 40_000);

test('leave() refuses if this node is the last member of either etcd, and changes nothing', async () => {
  const { pair, config, start, units } = await createNode();
  await start();
  await expect(pair.leave({ ...config, createsCluster: false }, signal)).rejects.toMatchObject({
    code: 'consensus-last-member',
  });
  for (const { unit } of [STATE_ETCD, KUBERNETES_ETCD])
    expect((await units.status(unit)).active).toBe('active');
}, 30_000);
