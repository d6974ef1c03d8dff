import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import { EventValue } from '../../internal/event/index.ts';
import { FileError } from '../../internal/file/index.ts';
import { FakeClock, settle } from '../../internal/testing/fake-clock.ts';
import { MemoryFiles } from '../../internal/testing/host/memory-files.ts';
import { superviseForTest } from '../../internal/testing/supervised.ts';
import {
  NodeRole,
  type WatchNodesResponse,
  WatchNodesResponseSchema,
} from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { CuratorConnection, Curators } from '../curatorclient/index.ts';
import { createMachineCheck, PodNetworkProbe } from '../hosthealth/index.ts';
import type { ControlPlaneHealthQuery } from '../kubernetes/index.ts';
import { membership } from './fake-node.ts';
import { roleFetchWorker } from './role-fetch-worker.ts';
import { statusPushWorker, type StatusFacts } from '../nodestatus/index.ts';
import type { RoleSet } from './role-values.ts';
import { createFakeRoleValues } from './fake-role-values.ts';

/** A fake curator: it pushes what the test sets, and records what the node sends. */
class FakeCurator implements Curators {
  readonly statuses: {
    address?: string;
    curatorEndpoint?: string;
    runnables?: unknown[];
    controlPlane?: readonly { readonly name: string; readonly ready: boolean }[];
    machine?: {
      readonly services: unknown;
      readonly problems: unknown;
      readonly podNetwork?: unknown;
      readonly nameLookup?: { readonly failure: string };
    };
    etcdContents?: unknown;
  }[] = [];
  readonly pushed = new EventValue<WatchNodesResponse>();
  heartbeats = 0;
  readonly sent: unknown[] = [];
  dials = 0;
  open = 0;
  failing = false;
  /** Number of connection attempts that fail. */
  absent = 0;
  mute = false;
  /** The curator endpoint in the status that an earlier run of the agent has sent. */
  announced = '';

  async use<T>(
    work: (curator: CuratorConnection, signal: AbortSignal) => Promise<T>,
    { signal }: { readonly signal: AbortSignal },
  ): Promise<T> {
    this.dials++;
    if (this.absent-- > 0) throw new Error('nobody is there');
    this.open++;
    try {
      return await work(this.#connection(), signal);
    } finally {
      this.open--;
    }
  }

  #connection(): CuratorConnection {
    const client = {
      watchNode: (_: unknown, { signal }: { signal: AbortSignal }) => this.#watch(signal),
      getNode: () => Promise.resolve({ node: { status: { curatorEndpoint: this.announced } } }),
      updateNodeStatus: ({ status }: { status: object }) => {
        if (this.failing) return Promise.reject(new Error('unavailable'));
        this.statuses.push(status);
        return Promise.resolve({});
      },
      heartbeat: (heartbeats: AsyncIterable<unknown>) => this.#answer(heartbeats),
    } as unknown as CuratorConnection['client'];
    return { endpoint: 'curator', client, of: () => ({}) as never };
  }

  push(nodes: { nodeId: string; roles: NodeRole[] }[]): void {
    this.pushed.set(create(WatchNodesResponseSchema, { nodes }));
  }

  async *#watch(signal: AbortSignal): AsyncGenerator<WatchNodesResponse> {
    using watcher = this.pushed.watch();
    for (;;) yield await watcher.next(signal);
  }

  async *#answer(heartbeats: AsyncIterable<unknown>): AsyncGenerator<{ intervalMs: bigint }> {
    for await (const heartbeat of heartbeats) {
      this.sent.push(heartbeat);
      this.heartbeats++;
      if (!this.mute) yield { intervalMs: 5000n };
    }
  }
}

/** A machine on which every write fails, with this list of mounts. */
class ReadOnlyFiles extends MemoryFiles {
  readonly #mountinfo: string;
  writes = 0;

  constructor(mountinfo: string) {
    super();
    this.#mountinfo = mountinfo;
  }

  override read(path: string, maxBytes: number): Promise<Uint8Array | undefined> {
    if (path !== '/proc/self/mountinfo') return super.read(path, maxBytes);
    return Promise.resolve(Buffer.from(this.#mountinfo));
  }

  override writeAtomic = (path: string) => this.#refuse(path);
  override makeDirectory = (path: string) => this.#refuse(path);
  override remove = (path: string) => this.#refuse(path);
  override createExclusive = (path: string) => this.#refuse(path);
  override appendSynced = (path: string) => this.#refuse(path);

  #refuse(path: string): Promise<never> {
    this.writes++;
    return Promise.reject(new FileError('file-read-only', `writing ${path}`));
  }
}

describe('the role fetch worker', () => {
  function create() {
    const values = createFakeRoleValues();
    const curator = new FakeCurator();
    const order: string[] = [];
    const seen: RoleSet[] = [];
    const worker = roleFetchWorker({
      reads: values,
      curators: curator,
      saveRoles: () => (order.push('saved'), Promise.resolve()),
      onRolesAssigned: (roles) => void (order.push('published'), seen.push(roles)),
    });
    return { values, curator, worker, order, seen };
  }

  test('publishes the roles of this node after they are on disk, and ignores other nodes and repeated updates', async () => {
    const { values, curator, worker, order, seen } = create();
    await using _tree = superviseForTest(worker);
    values.clusterMembership.set(membership);
    curator.push([{ nodeId: 'node-2', roles: [NodeRole.KUBERNETES_WORKER] }]);
    await settle();
    expect(seen).toEqual([]);
    for (let twice = 0; twice < 2; twice++) {
      curator.push([
        { nodeId: 'node-1', roles: [NodeRole.CONSENSUS_MEMBER, NodeRole.KUBERNETES_CONTROLLER] },
      ]);
      await settle();
    }
    expect(seen).toEqual([new Set(['ConsensusMember', 'KubernetesController'])]);
    expect(order).toEqual(['saved', 'published']);
  });

  test('keeps the old roles when it cannot parse the new ones, logs that, dials again and accepts the next ones', async () => {
    const { values, curator, worker, order, seen } = create();
    await using tree = superviseForTest(worker);
    values.clusterMembership.set(membership);
    curator.push([{ nodeId: 'node-1', roles: [NodeRole.KUBERNETES_WORKER] }]);
    await settle();
    curator.push([{ nodeId: 'node-1', roles: [NodeRole.KUBERNETES_WORKER, 99 as NodeRole] }]);
    await settle();
    await tree.clock.advance(2000);
    expect([seen, order]).toEqual([[new Set(['KubernetesWorker'])], ['saved', 'published']]);
    expect(tree.at('root').state).toBe('healthy');
    expect(tree.at('root.watch').lastError).toMatch(/99/);
    expect(curator.dials).toBeGreaterThan(1);
    curator.push([{ nodeId: 'node-1', roles: [] }]);
    await tree.clock.advance(10_000);
    expect(seen).toEqual([new Set(['KubernetesWorker']), new Set()]);
  });

  test('without a curator it retries with growing pauses, and recovers by itself', async () => {
    const { values, curator, worker, seen } = create();
    curator.absent = 14;
    await using tree = superviseForTest(worker);
    values.clusterMembership.set(membership);
    curator.push([{ nodeId: 'node-1', roles: [NodeRole.KUBERNETES_WORKER] }]);
    await settle();
    const pauses: number[] = [];
    while (seen.length === 0) {
      const pauseMs = (tree.at('root.watch').backoffUntilMs ?? NaN) - tree.clock.nowMs();
      pauses.push(pauseMs);
      await tree.clock.advance(pauseMs);
      await settle();
    }
    expect([pauses.slice(0, 3), Math.max(...pauses), pauses.length]).toEqual([[500, 750, 1125], 60_000, 14]);
    expect(tree.at('root.watch').state).toBe('healthy');
  });

  test('closes every connection that it opened', async () => {
    const { values, curator, worker } = create();
    {
      await using _tree = superviseForTest(worker);
      values.clusterMembership.set(membership);
      curator.push([]);
      await settle();
      expect(curator.open).toBe(1);
    }
    expect(curator.open).toBe(0);
  });
});

describe('the status push worker', () => {
  function create() {
    const values = createFakeRoleValues();
    const curator = new FakeCurator();
    const clock = new FakeClock();
    const facts = {
      agentVersion: '0.1.0',
      boots: 1,
      bootId: () => Promise.resolve(`boot ${facts.boots}`),
      tree: () => [],
      certificates: () => Promise.resolve([]),
      holdsKeys: () => Promise.resolve(false),
      oldDiskMs: () => 7,
      directories: () => Promise.resolve(new Map([['/var/lib/cluster', 'clear' as const]])),
      isApiReady: true,
      looks: 0,
      isLeft: false,
      kubernetesEtcd: () => Promise.resolve(undefined),
      contents: undefined as ReturnType<StatusFacts['etcdContents']>,
      etcdContents: () => facts.contents,
      kubeletFails: false,
      dnsFailure: undefined as string | undefined,
      isMachineReadable: true,
      unreadable: [] as unknown[],
      onUnreadableMachine: (error: unknown) => void facts.unreadable.push(error),
      machine: (isControlPlane: boolean): ReturnType<StatusFacts['machine']> => {
        if (!facts.isMachineReadable) return Promise.reject(new Error('/proc/net/route is too large'));
        const why = `does not start on a ${isControlPlane ? 'control plane' : 'worker'}`;
        const services = facts.kubeletFails ? [{ name: 'kubelet', why }] : [];
        const swap = { code: 'preflight-swap', subject: 'swap', cause: 'on', isWarning: false };
        const fullPackets = { lost: ['10.244.3.0'], judged: 2 };
        const roundTrips = [{ address: '10.244.3.0', ms: 40 }];
        const podNetwork = { address: '10.244.1.0', unreachable: ['10.244.2.0'], fullPackets, roundTrips };
        const nameLookup = { failure: facts.dnsFailure };
        return Promise.resolve({ services, problems: [swap], podNetwork, nameLookup });
      },
      controlPlane: ({ hasRole: isWanted }: ControlPlaneHealthQuery) => {
        if (!isWanted && !facts.isLeft) return Promise.resolve([]);
        facts.looks++;
        const why = facts.isApiReady ? '' : 'connection refused';
        return Promise.resolve([
          { name: 'kube-apiserver', isReady: facts.isApiReady, sinceMs: 7, why } as const,
        ]);
      },
    };
    return {
      values,
      curator,
      clock,
      facts,
      worker: statusPushWorker({ reads: values, curators: curator, clock, facts }),
    };
  }

  test('pushes one status at first and one for each change, and none before the membership or without a change', async () => {
    const { values, curator, clock, worker } = create();
    await using _tree = superviseForTest(worker, { clock });
    await clock.advance(20_000);
    expect(curator.statuses).toHaveLength(0);
    values.clusterMembership.set(membership);
    await settle();
    await clock.advance(20_000);
    expect(curator.statuses.map(({ curatorEndpoint }) => curatorEndpoint)).toEqual(['']);
    values.localControlPlane.set({
      apiServerEtcd: { endpoint: '', caFile: '', certFile: '', keyFile: '' },
      curatorEndpoint: '198.18.0.11:9091',
    });
    await clock.advance(6000);
    values.localRoles.set(new Set(['KubernetesWorker']));
    values.localControlPlane.set(undefined);
    await clock.advance(6000);
    expect(curator.statuses.map(({ curatorEndpoint }) => curatorEndpoint)).toEqual([
      '',
      '198.18.0.11:9091',
      '',
    ]);
  });

  test('pushes the address of the machine once per run, even when it has changed', async () => {
    const { values, curator, clock, worker } = create();
    for (const nodeAddress of ['198.18.0.11', '198.18.0.11', '198.18.0.99']) {
      await using _tree = superviseForTest(worker, { clock });
      values.clusterMembership.set({ ...membership, nodeAddress });
      await clock.advance(20_000);
    }
    expect(curator.statuses.map(({ address }) => address)).toEqual([
      '198.18.0.11',
      '198.18.0.11',
      '198.18.0.99',
    ]);
  });

  test('reports at once its stage of the key rotation', async () => {
    const { values, curator, clock, worker } = create();
    await using _tree = superviseForTest(worker, { clock });
    values.clusterMembership.set(membership);
    values.localKeys.set({ generation: 1, phase: 'done' });
    await settle();
    values.localKeys.set({ generation: 2, phase: 'trust' });
    await settle();
    expect(curator.statuses).toMatchObject([
      {
        keys: { generation: 1n, phase: 'done' },
        holdsKeys: false,
        dataDirectories: [{ path: '/var/lib/cluster', protection: 'clear' }],
        oldDiskMs: 7n,
      },
      { keys: { generation: 2n, phase: 'believe' } },
    ]);
  });

  test('reports what is wrong on its machine with the next heartbeat', async () => {
    const { values, curator, clock, facts, worker } = create();
    await using _tree = superviseForTest(worker, { clock });
    values.clusterMembership.set(membership);
    await clock.advance(6_000);
    facts.kubeletFails = true;
    facts.dnsFailure = '10.96.0.10 does not answer';
    await clock.advance(6_000);
    values.localRoles.set(new Set(['ConsensusMember', 'KubernetesController']));
    await clock.advance(6_000);
    const why = (on: string) => [{ name: 'kubelet', why: `does not start on a ${on}` }];
    const reported = curator.statuses.map(({ machine }) => machine?.services);
    expect(curator.statuses[0]?.machine).toMatchObject({
      problems: [{ code: 'preflight-swap', subject: 'swap', cause: 'on', isWarning: false }],
      podNetwork: {
        ...{ address: '10.244.1.0', unreachable: ['10.244.2.0'] },
        fullPackets: { lost: ['10.244.3.0'], judged: 2 },
        roundTrips: { peers: [{ address: '10.244.3.0', milliseconds: 40 }] },
      },
      nameLookup: { failure: '' },
    });
    expect(curator.statuses.at(-1)?.machine?.nameLookup?.failure).toBe('10.96.0.10 does not answer');
    expect([reported[0], reported[1], reported.at(-1)]).toEqual([[], why('worker'), why('control plane')]);
  });

  test('reports that its state directory is read-only, and goes on sending heartbeats, while every write fails', async () => {
    const { values, curator, clock, facts, worker } = create();
    const files = new ReadOnlyFiles('20 1 8:1 / / rw - ext4 /dev/sda1 ro,errors=remount-ro\n');
    const check = createMachineCheck(
      { files, clock },
      {
        allowsCgroupV1: true,
        node: () => ({
          ...{ families: [], addresses: [], configuredAddress: undefined, needsWireguard: false },
        }),
      },
    );
    facts.machine = async () => ({
      ...{ services: [], problems: [...(await check())] },
      podNetwork: { address: '', unreachable: [], fullPackets: { lost: [], judged: 0 }, roundTrips: [] },
      nameLookup: { failure: undefined },
    });
    await using _tree = superviseForTest(worker, { clock });
    values.clusterMembership.set(membership);
    for (let second = 0; second < 20; second++) await clock.advance(1_000);
    expect(curator.statuses[0]?.machine?.problems).toContainEqual({
      ...{ code: 'preflight-read-only', subject: 'file system /', isWarning: false },
      cause: expect.stringMatching(/^the file system of \/var\/lib\/cluster, .* is read-only: \/dev\/sda1/),
    });
    expect(curator.heartbeats).toBeGreaterThanOrEqual(4);
    expect([curator.dials, files.writes]).toEqual([1, 0]);
  });

  test('reports whether the members of each etcd agree with the next heartbeat', async () => {
    const { values, curator, clock, facts, worker } = create();
    await using _tree = superviseForTest(worker, { clock });
    values.clusterMembership.set(membership);
    await clock.advance(6_000);
    const verdict = { agreeing: ['a', 'c'], differing: ['b'], notCompared: ['d'] };
    const waiting = { sinceMs: 5, isLeader: false, compared: undefined };
    facts.contents = { state: { ...waiting, compared: { ...verdict, atMs: 7.5 } }, kubernetes: waiting };
    await clock.advance(6_000);
    expect(curator.statuses.map(({ etcdContents }) => etcdContents)).toMatchObject([
      undefined,
      {
        state: { sinceMs: 5n, comparedMs: 8n, ...verdict },
        kubernetes: { sinceMs: 5n, comparedMs: 0n, agreeing: [], differing: [], notCompared: [] },
      },
    ]);
  });

  test('pushes no status while the round trips to another node vary, and one when they have clearly changed', async () => {
    const { values, curator, clock, facts, worker } = create();
    const files = new MemoryFiles();
    await files.makeDirectory('/proc/net');
    await files.writeAtomic('/proc/net/route', 'flannel.1\t0001F40A\t0001F40A\n');
    let answers: readonly number[] = [0.2, 9, 0.6, 1_000, 4, 400, 0.3, 0.2];
    let count = 0;
    const probe = new PodNetworkProbe({
      ...{ files, clock, ownAddress: () => '10.244.0.0' },
      tryFullPackets: async () => 'arrive',
      answerTimeMs: async () => answers[count++ % answers.length],
    });
    facts.machine = async () => ({
      ...{ services: [], problems: [], nameLookup: { failure: undefined } },
      podNetwork: await probe.check(new AbortController().signal),
    });
    await using _tree = superviseForTest(worker, { clock });
    values.clusterMembership.set(membership);
    const pass = async (seconds: number): Promise<void> => {
      for (let second = 0; second < seconds; second++) await clock.advance(1_000);
    };
    const reported = () =>
      (curator.statuses.at(-1)?.machine?.podNetwork as { roundTrips?: unknown } | undefined)?.roundTrips;
    await pass(120);
    expect(reported()).toEqual({ peers: [{ address: '10.244.1.0', milliseconds: 5 }] });
    const before = curator.statuses.length;
    await pass(600);
    expect([curator.statuses.length - before, count > 60]).toEqual([0, true]);
    answers = [240, 251, 900, 249, 300];
    await pass(600);
    expect(curator.statuses.length - before).toBe(1);
    expect(reported()).toEqual({ peers: [{ address: '10.244.1.0', milliseconds: expect.closeTo(250, -2) }] });
  });

  test('reports the rest of its status when it cannot find out what is wrong on its machine', async () => {
    const { values, curator, clock, facts, worker } = create();
    facts.isMachineReadable = false;
    await using _tree = superviseForTest(worker, { clock });
    values.clusterMembership.set(membership);
    await clock.advance(6_000);
    expect(facts.unreadable).toContainEqual(
      expect.objectContaining({ message: '/proc/net/route is too large' }),
    );
    facts.isMachineReadable = true;
    await clock.advance(6_000);
    expect(curator.statuses.map(({ address, machine }) => [address, machine !== undefined])).toEqual([
      ['198.18.0.11', false],
      ['198.18.0.11', true],
    ]);
  });

  test('reports the parts of its control plane while the node has the role or a part runs: each second while a part is missing, otherwise with the heartbeats', async () => {
    const { values, curator, clock, facts, worker } = create();
    await using _tree = superviseForTest(worker, { clock });
    const parts = () => curator.statuses.map(({ controlPlane }) => controlPlane?.map(({ ready }) => ready));
    values.clusterMembership.set(membership);
    await settle();
    facts.isApiReady = false;
    values.localRoles.set(new Set(['ConsensusMember', 'KubernetesController']));
    await clock.advance(5_000);
    expect(parts()).toEqual([[], [false]]);
    facts.looks = 0;
    for (let second = 0; second < 4; second++) await clock.advance(1_000);
    expect(facts.looks).toBeGreaterThanOrEqual(4);
    facts.isApiReady = true;
    await clock.advance(1_000);
    expect(parts()).toEqual([[], [false], [true]]);
    facts.looks = 0;
    for (let second = 0; second < 10; second++) await clock.advance(1_000);
    expect(facts.looks).toBe(2);
    facts.isLeft = true;
    values.kubernetesStatus.set(undefined);
    values.localRoles.set(new Set(['KubernetesWorker']));
    await clock.advance(5_000);
    expect(parts()).toEqual([[], [false], [true]]);
    facts.isLeft = false;
    values.kubernetesStatus.set({ version: 'v1', controlPlane: false });
    await settle();
    expect(parts().at(-1)).toEqual([]);
  });

  const serving = {
    apiServerEtcd: { endpoint: '', caFile: '', certFile: '', keyFile: '' },
    curatorEndpoint: '198.18.0.11:9091',
  };
  const endpoints = ({ statuses }: FakeCurator) => statuses.map(({ curatorEndpoint }) => curatorEndpoint);

  test('announces the curator without interruption when the agent restarts and the curator keeps serving', async () => {
    const { values, curator, clock, worker } = create();
    curator.announced = serving.curatorEndpoint;
    await using _tree = superviseForTest(worker, { clock });
    values.clusterMembership.set(membership);
    await settle();
    values.localRoles.set(new Set(['ConsensusMember']));
    await clock.advance(60_000);
    values.localControlPlane.set(serving);
    await clock.advance(10_000);
    expect(endpoints(curator)).toEqual([serving.curatorEndpoint]);
  });

  test('stops announcing a control plane that does not come back', async () => {
    const { values, curator, clock, worker } = create();
    curator.announced = serving.curatorEndpoint;
    values.localRoles.set(new Set(['ConsensusMember']));
    await using _tree = superviseForTest(worker, { clock });
    values.clusterMembership.set(membership);
    await settle();
    await clock.advance(130_000);
    expect(endpoints(curator)).toEqual([serving.curatorEndpoint, '']);
  });

  test('stops announcing a curator at once when its role is removed', async () => {
    const { values, curator, clock, worker } = create();
    curator.announced = serving.curatorEndpoint;
    values.localRoles.set(new Set(['KubernetesWorker']));
    await using _tree = superviseForTest(worker, { clock });
    values.clusterMembership.set(membership);
    await settle();
    expect(endpoints(curator)).toEqual(['']);
  });

  test('pushes the whole status again after a failed push and a pause', async () => {
    const { values, curator, clock, worker } = create();
    curator.failing = true;
    await using _tree = superviseForTest(worker, { clock });
    values.clusterMembership.set(membership);
    await settle();
    curator.failing = false;
    await clock.advance(2000);
    expect(curator.statuses).toMatchObject([{ address: '198.18.0.11' }]);
  });

  test('sends its clock with each heartbeat', async () => {
    const { values, curator, clock, worker } = create();
    await using _tree = superviseForTest(worker, { clock });
    values.clusterMembership.set(membership);
    await settle();
    const startMs = clock.nowMs();
    await clock.advance(5_000);
    expect(curator.sent).toEqual([0, 5_000].map((ms) => ({ sentMs: BigInt(startMs + ms) })));
  });

  test('sends a heartbeat at once and then at the interval that the curator asks for', async () => {
    const { values, curator, clock, worker } = create();
    await using _tree = superviseForTest(worker, { clock });
    values.clusterMembership.set(membership);
    await settle();
    const first = curator.heartbeats;
    await clock.advance(30_000);
    expect(first).toBe(1);
    expect(curator.heartbeats).toBeGreaterThanOrEqual(6);
    expect(curator.heartbeats).toBeLessThanOrEqual(8);
  });

  test('checks its own facts with each heartbeat and pushes a change that no event announced', async () => {
    const { values, curator, clock, facts, worker } = create();
    await using _tree = superviseForTest(worker, { clock });
    values.clusterMembership.set(membership);
    await settle();
    await clock.advance(10_000);
    facts.boots++;
    expect(curator.statuses).toMatchObject([{ bootId: 'boot 1' }]);
    await clock.advance(5_000);
    expect(curator.statuses).toMatchObject([{ bootId: 'boot 1' }, { bootId: 'boot 2' }]);
  });

  test('leaves a curator that accepts heartbeats but answers none, before the node’s lease expires', async () => {
    const { values, curator, clock, worker } = create();
    curator.mute = true;
    await using _tree = superviseForTest(worker, { clock });
    values.clusterMembership.set(membership);
    await settle();
    expect(curator.dials).toBe(1);
    await clock.advance(8_000);
    expect(curator.dials).toBeGreaterThan(1);
  });
});
