import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import { EventValue } from '../../internal/event/index.ts';
import { FakeClock, FakeUnits, MemoryFiles, settle, superviseForTest } from '../../internal/testing/index.ts';
import {
  type ControlPlane,
  type WatchDirectoryResponse,
  WatchDirectoryResponseSchema,
} from '../../joinservice/curatorproto/gen/distribution_pb.js';
import type { ClusterDirectory, CuratorConnection, Curators } from '../curatorclient/index.ts';
import type { Membership } from '../membership/index.ts';
import type { ApiServerHealth } from '../kubernetes/index.ts';
import { balancerWorker } from './balancer-worker.ts';
import { directoryFromWire, directoryWorker } from './directory-worker.ts';
import { createFakeRoleValues } from './fake-role-values.ts';

const membership: Membership = {
  clusterId: 'a'.repeat(32),
  clusterName: 'blue',
  nodeId: 'node-9',
  nodeName: 'n9',
  nodeAddress: '198.51.100.9',
  nodeCertPem: '',
  clusterCaPem: '',
  epoch: 1,
  directory: [{ nodeId: 'node-1', host: '198.51.100.1' }],
};

type WireNode = Pick<ControlPlane, 'nodeId' | 'address' | 'curatorEndpoint' | 'apiServer'>;
const wire = (nodeId: string, more: Partial<WireNode> = {}): WireNode => ({
  nodeId,
  address: `198.51.100.${nodeId.slice(5)}`,
  curatorEndpoint: 'c:1',
  apiServer: true,
  ...more,
});
const withKeys = (keys: string, ...controlPlanes: WireNode[]): WatchDirectoryResponse =>
  create(WatchDirectoryResponseSchema, { controlPlanes, keys });
const told = (...controlPlanes: WireNode[]): WatchDirectoryResponse =>
  create(WatchDirectoryResponseSchema, { controlPlanes });

/** A fake curator that sends what the test sets. */
class FakeCurators implements Curators {
  readonly pushed = new EventValue<WatchDirectoryResponse>();

  use<T>(
    work: (curator: CuratorConnection, signal: AbortSignal) => Promise<T>,
    { signal }: { readonly signal: AbortSignal },
  ): Promise<T> {
    const watchDirectory = () => this.#watch(signal);
    const curator = { endpoint: 'c:1', client: {}, of: () => ({ watchDirectory }) };
    return work(curator as unknown as CuratorConnection, signal);
  }

  async *#watch(signal: AbortSignal): AsyncGenerator<WatchDirectoryResponse> {
    using watcher = this.pushed.watch();
    for (;;) yield await watcher.next(signal);
  }
}

function createDirectory(saved?: ClusterDirectory | Error) {
  const values = createFakeRoleValues();
  const curators = new FakeCurators();
  const order: string[] = [];
  const saves: ClusterDirectory[] = [];
  const seen: (ClusterDirectory | undefined)[] = [];
  const relaySaves: (readonly string[])[] = [];
  const worker = directoryWorker({
    reads: values,
    writes: {
      clusterDirectory: {
        set: (value) => (order.push('published'), seen.push(value), values.clusterDirectory.set(value)),
      },
      clusterRelays: values.clusterRelays,
      clusterKeys: values.clusterKeys,
      clusterConfiguration: values.clusterConfiguration,
      clusterRemovals: values.clusterRemovals,
    },
    curators,
    saved: {
      load: () => (saved instanceof Error ? Promise.reject(saved) : Promise.resolve(saved)),
      save: (directory) => (order.push('saved'), saves.push(directory), Promise.resolve()),
    },
    savedRelays: {
      load: () => Promise.resolve(undefined),
      save: (relays) => Promise.resolve(void relaySaves.push(relays)),
    },
  });
  return { values, curators, worker, order, saves, seen, relaySaves };
}

const hosts = (directory: ClusterDirectory | undefined): readonly string[] =>
  (directory ?? []).map(({ host }) => host);

describe('the directory worker', () => {
  test('saves each change of the list of control planes to disk once, before it publishes the change', async () => {
    const { values, curators, worker, order, saves, seen } = createDirectory();
    await using _tree = superviseForTest(worker);
    values.clusterMembership.set(membership);
    await settle();
    expect(seen.map(hosts)).toEqual([['198.51.100.1']]);
    order.length = 0;
    for (let twice = 0; twice < 2; twice++) {
      curators.pushed.set(told(wire('node-1'), wire('node-3')));
      await settle();
    }
    expect(order).toEqual(['saved', 'published']);
    curators.pushed.set(told(wire('node-3')));
    await settle();
    expect(saves.map(hosts)).toEqual([['198.51.100.1', '198.51.100.3'], ['198.51.100.3']]);
  });

  test('publishes each new stage of the key rotation once, also when the list of control planes is unchanged', async () => {
    const { values, curators, worker, saves } = createDirectory();
    await using _tree = superviseForTest(worker);
    values.clusterMembership.set(membership);
    using stages = values.clusterKeys.watch();
    const { signal } = new AbortController();
    const seen: (string | undefined)[] = [await stages.next(signal)];
    for (const keys of ['', '2/distribute', '2/distribute', '2/trust']) {
      curators.pushed.set(withKeys(keys, wire('node-3')));
      await settle();
      const now = values.clusterKeys.peek();
      if (now.set && now.value !== seen.at(-1)) seen.push(now.value);
    }
    expect(seen).toEqual([undefined, '', '2/distribute', '2/trust']);
    expect(saves).toHaveLength(1);
  });

  test('publishes each new hash of the removed machines once', async () => {
    const { values, curators, worker } = createDirectory();
    await using _tree = superviseForTest(worker);
    values.clusterMembership.set(membership);
    let changes = 0;
    using _subscription = values.clusterRemovals.subscribe(() => (changes += 1));
    for (const removals of ['', 'aa', 'aa', 'bb']) {
      const controlPlanes = [wire('node-3')];
      curators.pushed.set(create(WatchDirectoryResponseSchema, { controlPlanes, removals }));
      await settle();
    }
    expect(values.clusterRemovals.peek()).toEqual({ set: true, value: 'bb' });
    expect(changes).toBe(3);
  });

  test('never accepts an empty or malformed list of control planes', async () => {
    const { values, curators, worker, saves, seen } = createDirectory();
    await using _tree = superviseForTest(worker);
    values.clusterMembership.set(membership);
    await settle();
    for (const bad of [
      told(),
      told(wire('node-1', { address: 'a b' })),
      told(wire('node-1', { address: '' })),
      told(wire('../node')),
      told(...Array.from({ length: 65 }, (_, index) => wire(`node-${index}`))),
    ]) {
      curators.pushed.set(bad);
      await settle();
    }
    expect([saves, seen.map(hosts)]).toEqual([[], [['198.51.100.1']]]);
  });

  test('saves each change of the relays once, and no malformed relay', async () => {
    const { values, curators, worker, saves, relaySaves } = createDirectory();
    await using _tree = superviseForTest(worker);
    values.clusterMembership.set(membership);
    const tell = async (...relays: string[]): Promise<void> => {
      const controlPlanes = [wire('node-1')];
      curators.pushed.set(create(WatchDirectoryResponseSchema, { controlPlanes, relays }));
      await settle();
    };
    await tell('198.51.100.8', '198.51.100.9');
    await tell('198.51.100.8', '198.51.100.9');
    await tell('a b');
    await tell(...Array<string>(17).fill('198.51.100.8'));
    await tell('198.51.100.9');
    expect(relaySaves).toEqual([['198.51.100.8', '198.51.100.9'], ['198.51.100.9']]);
    expect(values.clusterRelays.peek()).toEqual({ set: true, value: ['198.51.100.9'] });
    expect(saves).toEqual([]); // the list equals the one in the membership, so it is not saved again
  });

  test('starts with the saved list of control planes, so that a node comes back through curators that it did not join with', async () => {
    const node = { nodeId: 'node-3', host: '198.51.100.3', curator: true, apiServer: true };
    const { values, worker, seen } = createDirectory([node]);
    await using _tree = superviseForTest(worker);
    values.clusterMembership.set(membership);
    await settle();
    expect(seen).toEqual([[node]]);
  });

  test('uses the list of control planes in a new ticket until a curator sends a list, and never afterwards', async () => {
    const node = { nodeId: 'node-3', host: '198.51.100.3', curator: true, apiServer: true };
    const { values, curators, worker, saves, seen } = createDirectory([node]);
    await using _tree = superviseForTest(worker);
    values.clusterMembership.set(membership);
    await settle();
    const renewed = (nodeCertPem: string, host: string): Membership => ({
      ...{ ...membership, nodeCertPem },
      directory: [{ nodeId: 'node-4', host }],
    });
    values.clusterMembership.set(renewed('second', '198.51.100.4'));
    await settle();
    expect(saves.map(hosts)).toEqual([['198.51.100.4']]);
    curators.pushed.set(told(wire('node-3')));
    await settle();
    values.clusterMembership.set(renewed('third', '198.51.100.5')); // a later ticket is ignored, because it may name a removed node
    await settle();
    expect(seen.map(hosts)).toEqual([['198.51.100.3'], ['198.51.100.4'], ['198.51.100.3']]);
    expect(saves).toHaveLength(2);
  });

  test('uses the list of control planes in the membership when the saved list is damaged', async () => {
    const { values, worker, seen } = createDirectory(new Error('the checksum does not match'));
    await using _tree = superviseForTest(worker);
    values.clusterMembership.set(membership);
    await settle();
    expect(seen.map(hosts)).toEqual([['198.51.100.1']]);
  });
});

test('directoryFromWire() lists the services of each node', () => {
  expect(
    directoryFromWire(told(wire('node-1', { curatorEndpoint: '', apiServer: false })).controlPlanes),
  ).toEqual([{ nodeId: 'node-1', host: '198.51.100.1', curator: false, apiServer: false }]);
});

const settings = {
  ...{ clusterName: 'blue', kubernetesVersion: 'v1.35.4', podSubnet: '', serviceSubnet: '' },
  ...{ apiServerSans: [], bundleManifest: '' },
};

const balancerHealth = async (): Promise<readonly ApiServerHealth[]> => [];

describe('the balancer worker', () => {
  test('reports in the status which API servers are unhealthy, and that the balancer does not respond', async () => {
    const values = createFakeRoleValues();
    const files = new MemoryFiles();
    await files.makeDirectory('/etc');
    const clock = new FakeClock();
    let answer: () => Promise<readonly ApiServerHealth[]> = () => Promise.reject(new Error('connect ENOENT'));
    const ports = { files, units: new FakeUnits(), clock, balancerHealth: () => answer() };
    await using tree = superviseForTest(balancerWorker({ reads: values, ports }));
    values.clusterSettings.set(settings);
    values.clusterMembership.set(membership);
    await settle();
    const note = async (): Promise<string | undefined> => {
      await clock.advance(10_000);
      return tree.at('root.upstreams').note;
    };
    expect(await note()).toBe('API server balancer does not respond: connect ENOENT');
    const server = (host: string, verdict: ApiServerHealth['verdict'], why = '') => ({
      ...{ server: `${host}:6443`, verdict, why },
      ...{ sinceMs: 0, connections: 0 },
    });
    answer = async () => [server('a', 'healthy'), server('b', 'silent', 'no answer within 1.2s')];
    expect(await note()).toBe('1 of 2 API servers unhealthy: b:6443 (no answer within 1.2s)');
    answer = async () => [server('a', 'healthy'), server('b', 'unknown')];
    expect(await note()).toBeUndefined();
  });

  test('stops the balancer where the operator has a load balancer for the API servers', async () => {
    const values = createFakeRoleValues();
    const files = new MemoryFiles();
    const units = new FakeUnits();
    units.active.add('cluster-apilb.service');
    await using tree = superviseForTest(
      balancerWorker({ reads: values, ports: { files, units, clock: new FakeClock(), balancerHealth } }),
    );
    values.clusterSettings.set({ ...settings, apiEndpoint: 'api.example.test:6443' });
    values.clusterMembership.set(membership);
    await settle();
    expect(units.active.has('cluster-apilb.service')).toBe(false);
    expect(tree.at('root').note).toBe('idle: using load balancer api.example.test:6443');
  });

  const config = async (files: MemoryFiles): Promise<unknown> =>
    JSON.parse(
      Buffer.from((await files.read('/etc/cluster-apilb/config.json', 4096)) ?? []).toString('utf8'),
    );

  test('applies changes of the list without a restart: only control planes with an API server, its own node first', async () => {
    const values = createFakeRoleValues();
    const files = new MemoryFiles();
    await files.makeDirectory('/etc');
    const units = new FakeUnits();
    await using _tree = superviseForTest(
      balancerWorker({ reads: values, ports: { files, units, clock: new FakeClock(), balancerHealth } }),
    );
    await settle();
    expect(await files.read('/etc/cluster-apilb/config.json', 4096)).toBeUndefined();
    values.clusterSettings.set(settings);
    values.clusterMembership.set(membership);
    await settle();
    expect(await config(files)).toEqual({
      listen: { host: '127.0.0.1', port: 6445 },
      upstreams: [{ host: '198.51.100.1', port: 6443 }],
      limits: { connections: 1024, perSource: 1024, idleMs: 1_800_000, halfOpenMs: 60_000 },
    });
    const node = (nodeId: string, apiServer = true) => ({
      nodeId,
      host: `198.51.100.${nodeId.slice(5)}`,
      curator: true,
      apiServer,
    });
    values.clusterDirectory.set([node('node-1'), node('node-2', false), node('node-9')]);
    await settle();
    expect(await config(files)).toMatchObject({
      upstreams: [
        { host: '198.51.100.9', port: 6443 },
        { host: '198.51.100.1', port: 6443 },
      ],
    });
    expect(units.moves.filter((move) => !move.startsWith('start'))).toEqual([]);
  });
});
