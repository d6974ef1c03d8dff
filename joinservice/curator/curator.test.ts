import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { afterEach, describe, expect, test } from '@jest/globals';
import { EtcdError, put } from '../../internal/etcd/index.ts';
import { records } from '../../internal/records/index.ts';
import type { Handlers } from '../../internal/rpc/index.ts';
import type { MemberIdentity } from '../../internal/pki/index.ts';
import {
  createMemoryLogger,
  FakeClock,
  MemoryEtcd,
  settle,
  TestCluster,
  type TestPeer,
} from '../../internal/testing/index.ts';
import {
  Curator as CuratorContract,
  NodeHealth,
  NodeRole,
  NodeState,
  NodeStatusSchema,
  Permission,
  type WatchNodesResponse,
} from '../curatorproto/gen/curator_pb.js';
import { permissionOf } from './admission.ts';
import { Curator } from './curator.ts';

const signal = new AbortController().signal;
const stops: AbortController[] = [];
const runs: Promise<unknown>[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) stop.abort(new Error('the test is over'));
  await Promise.allSettled(runs.splice(0));
});

/** One etcd, one cluster with an owner and a control-plane node, and as many curators as a test wants. */
async function createCurators(count = 1) {
  const etcd = new MemoryEtcd();
  const clock = new FakeClock();
  const cluster = await TestCluster.create(etcd, () => clock.nowMs());
  const first = await cluster.addNode('first', { roles: ['ConsensusMember', 'KubernetesController'] });
  const owner = await cluster.addOperator('owner', 'owner');
  const curators = Array.from({ length: count }, () => {
    const facts = {
      certificates: [{ name: 'curator', notAfterMs: 7 }],
      etcdStatus: async () => ({ dbSizeBytes: 1n, quotaBytes: 2n, hasLeader: true, members: [] }),
    };
    const curator = new Curator({ etcd, nodeId: idOf(first), facts, clock, log: createMemoryLogger().log });
    const stop = new AbortController();
    stops.push(stop);
    runs.push(curator.run(stop.signal).catch((error: unknown) => error));
    return curator.service.handlers as unknown as Handlers<typeof CuratorContract, MemberIdentity>;
  });
  await settle();
  const [curator] = curators;
  if (curator === undefined) throw new Error('no curator');
  return { etcd, clock, cluster, first, owner, curator, curators };
}

function as(peer: TestPeer, callSignal = signal) {
  return { peer: peer.identity, signal: callSignal, address: '127.0.0.1' };
}

function idOf(peer: TestPeer): string {
  return peer.identity.kind === 'node' ? peer.identity.nodeId : peer.identity.fingerprint;
}

const mutation = (idempotencyKey: string = crypto.randomUUID()) => ({ idempotencyKey });
const coded = (code: string): unknown => expect.objectContaining({ code });

/** Reads a watch message by message. */
function follow(
  messages: AsyncIterable<MessageInitShape<(typeof CuratorContract)['method']['watchNodes']['output']>>,
) {
  const iterator = messages[Symbol.asyncIterator]();
  return {
    next: async () => (await iterator.next()).value as WatchNodesResponse,
    end: () => iterator.return?.(),
  };
}

describe('admission', () => {
  test('every method of the contract has a permission; one without is refused to everybody', () => {
    for (const method of CuratorContract.methods)
      expect(permissionOf(method)).not.toBe(Permission.UNSPECIFIED);
    expect(permissionOf({ ...CuratorContract.method.getNode, proto: { options: undefined } } as never)).toBe(
      Permission.UNSPECIFIED,
    );
  });

  const everybody = ['node', 'viewer', 'operator', 'owner'] as const;
  const allowed: Record<Permission, readonly (typeof everybody)[number][]> = {
    [Permission.UNSPECIFIED]: [],
    [Permission.READ]: everybody,
    [Permission.SELF]: ['node'],
    [Permission.ADMINISTER]: ['operator', 'owner'],
    [Permission.OWN]: ['owner'],
    [Permission.INSPECT]: ['viewer', 'operator', 'owner'],
  };
  test.each(CuratorContract.methods.map((method) => ({ name: method.name, method })))(
    '$name is served to those who hold its permission and denied to all others',
    async ({ method }) => {
      const { curator, cluster, first, owner } = await createCurators();
      const viewer = await cluster.addOperator('v', 'viewer');
      const operator = await cluster.addOperator('o', 'operator');
      const peers = { node: first, viewer, operator, owner };
      const handler = curator[method.localName as keyof typeof curator] as (
        request: unknown,
        call: unknown,
      ) => unknown;
      const served = everybody.filter((who) => allowed[permissionOf(method)].includes(who));
      const admitted: string[] = [];
      for (const who of everybody) {
        const stop = new AbortController();
        const request = method.methodKind === 'bidi_streaming' ? one({}) : create(method.input, {});
        const answer = handler(request, as(peers[who], stop.signal));
        const outcome = isIterable(answer)
          ? answer[Symbol.asyncIterator]().next()
          : (answer as Promise<unknown>);
        const code = await outcome.then(
          () => 'ok',
          (error: { code?: string }) => error.code,
        );
        stop.abort(new Error('enough'));
        if (code !== 'curator-denied') admitted.push(who);
      }
      expect(admitted).toEqual(served);
    },
  );

  test.each([
    { name: 'was deleted', change: undefined },
    { name: 'is decommissioned', change: { state: 'DECOMMISSIONED' as const } },
    { name: 'is not admitted yet', change: { state: 'STANDBY' as const } },
    { name: 'has another key on record', change: { pubKey: btoa('another') } },
  ])('a node that $name is refused with a certificate that is still good', async ({ change }) => {
    const { curator, cluster, etcd } = await createCurators();
    const node = await cluster.addNode('n');
    await expect(
      curator.listNodes(create(CuratorContract.method.listNodes.input), as(node)),
    ).resolves.toBeDefined();
    if (change === undefined) await cluster.forget(node);
    else {
      const key = records.node.key(idOf(node));
      const record = records.node.decode(key, (await etcd.get(key, { signal }))?.value ?? new Uint8Array());
      etcd.commitNow({ when: [], then: [put(key, records.node.encode({ ...record, ...change }))] });
    }
    await expect(curator.listNodes(create(CuratorContract.method.listNodes.input), as(node))).rejects.toEqual(
      coded('curator-not-member'),
    );
  });

  test('when etcd can not answer, everybody is refused', async () => {
    const { curator, etcd, owner } = await createCurators();
    etcd.setOutage(new EtcdError('etcd-unavailable', 'testing'));
    await expect(
      curator.checkHealth(create(CuratorContract.method.checkHealth.input), as(owner)),
    ).rejects.toEqual(coded('etcd-unavailable'));
  });

  test('an open watch ends as soon as its caller is no member any more, at every curator', async () => {
    const { curators, cluster } = await createCurators(2);
    const [node, operator] = [await cluster.addNode('n'), await cluster.addOperator('o', 'viewer')];
    const watches = curators.flatMap((curator) =>
      [node, operator].map((peer) =>
        follow(curator.watchNodes(create(CuratorContract.method.watchNodes.input), as(peer))),
      ),
    );
    for (const watch of watches) await watch.next();
    const ends = watches.map(async (watch) => {
      for (;;) await watch.next();
    });
    await cluster.forget(node);
    await cluster.forget(operator);
    for (const end of ends) await expect(end).rejects.toEqual(coded('curator-not-member'));
  });

  test('a heartbeat stream ends too, while it waits for the next beat', async () => {
    const { curator, cluster } = await createCurators();
    const node = await cluster.addNode('n');
    const beats = curator.heartbeat(one({}, true) as never, as(node))[Symbol.asyncIterator]();
    await beats.next();
    const next = beats.next();
    await settle();
    await cluster.forget(node);
    await expect(next).rejects.toEqual(coded('curator-not-member'));
  });
});

describe('nodes', () => {
  test('setNodeRoles() changes them and says so to a watch at another curator', async () => {
    const { curators, cluster, owner } = await createCurators(2);
    const [here, there] = curators as [(typeof curators)[0], (typeof curators)[0]];
    const node = await cluster.addNode('n');
    const watch = follow(
      there.watchNode(create(CuratorContract.method.watchNode.input, { nodeId: idOf(node) }), as(node)),
    );
    expect(await watch.next()).toMatchObject({ relist: true, caughtUp: true, nodes: [{ roles: [] }] });
    const request = create(CuratorContract.method.setNodeRoles.input, {
      nodeId: idOf(node),
      roles: [NodeRole.KUBERNETES_WORKER],
      mutation: mutation(),
    });
    const answer = await here.setNodeRoles(request, as(owner));
    expect(answer.node).toMatchObject({ roles: [NodeRole.KUBERNETES_WORKER] });
    expect(await watch.next()).toMatchObject({
      relist: false,
      nodes: [{ roles: [NodeRole.KUBERNETES_WORKER] }],
    });
    await watch.end();
  });

  test('a mutation happens once however often its key is sent, and another request under it is refused', async () => {
    const { curators, cluster, owner, etcd } = await createCurators(2);
    const node = await cluster.addNode('n');
    const request = (value: string) =>
      create(CuratorContract.method.updateNodeLabels.input, {
        nodeId: idOf(node),
        set: { zone: value },
        mutation: mutation('one-and-only'),
      });
    await Promise.all(
      curators.flatMap((curator) => [1, 2, 3].map(() => curator.updateNodeLabels(request('a'), as(owner)))),
    );
    const { entries } = await etcd.list('audit/', { signal });
    expect(entries.map((each) => records.audit.decode(each.key, each.value))).toMatchObject([
      {
        caller: 'operator:owner',
        method: 'UpdateNodeLabels',
        subject: idOf(node),
        detail: { set: { zone: 'a' }, changed: true },
      },
    ]);
    await expect(curators[0]?.updateNodeLabels(request('b'), as(owner))).rejects.toEqual(
      coded('curator-key-reused'),
    );
  });

  test('whoever loses a race reads again: 10 label changes at once all arrive', async () => {
    const { curators, cluster, owner } = await createCurators(3);
    const node = await cluster.addNode('n');
    await Promise.all(
      Array.from({ length: 10 }, async (_, i) =>
        curators[i % 3]?.updateNodeLabels(
          create(CuratorContract.method.updateNodeLabels.input, {
            nodeId: idOf(node),
            set: { [`l${i}`]: 'x' },
            mutation: mutation(),
          }),
          as(owner),
        ),
      ),
    );
    const found = await curators[0]?.getNode(
      create(CuratorContract.method.getNode.input, { node: 'n' }),
      as(owner),
    );
    expect(Object.keys(found?.node?.labels ?? {})).toHaveLength(10);
  });

  test('the last control-plane node keeps its role, also when two are demoted at once', async () => {
    const { curators, cluster, owner, first } = await createCurators(2);
    const second = await cluster.addNode('second', { roles: ['ConsensusMember'] });
    const demote = (peer: TestPeer, curator = curators[0]) =>
      curator?.setNodeRoles(
        create(CuratorContract.method.setNodeRoles.input, {
          nodeId: idOf(peer),
          roles: [],
          mutation: mutation(),
        }),
        as(owner),
      );
    const results = await Promise.allSettled([demote(first, curators[0]), demote(second, curators[1])]);
    expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(results.find(({ status }) => status === 'rejected')).toMatchObject({
      reason: coded('curator-last-control-plane'),
    });
  });

  test.each([
    {
      name: 'a controller without consensus',
      roles: [NodeRole.KUBERNETES_CONTROLLER],
      code: 'role-conflict',
    },
    { name: 'an unknown role', roles: [99 as NodeRole], code: 'curator-request-invalid' },
  ])('setNodeRoles() refuses $name', async ({ roles, code }) => {
    const { curator, cluster, owner } = await createCurators();
    const node = await cluster.addNode('n');
    const request = create(CuratorContract.method.setNodeRoles.input, {
      nodeId: idOf(node),
      roles,
      mutation: mutation(),
    });
    await expect(curator.setNodeRoles(request, as(owner))).rejects.toEqual(coded(code));
  });

  test('a node leaves in order: roles, state, record; each shortcut is refused (row 60)', async () => {
    const { curator, cluster, owner, etcd } = await createCurators();
    const node = await cluster.addNode('n', { roles: ['ConsensusMember'] });
    const nodeId = idOf(node);
    const state = (to: NodeState) =>
      curator.setNodeState(
        create(CuratorContract.method.setNodeState.input, { nodeId, state: to, mutation: mutation() }),
        as(owner),
      );
    const remove = () =>
      curator.deleteNode(
        create(CuratorContract.method.deleteNode.input, { nodeId, mutation: mutation() }),
        as(owner),
      );
    await expect(state(NodeState.DECOMMISSIONED)).rejects.toEqual(coded('curator-node-in-use'));
    await expect(remove()).rejects.toEqual(coded('curator-node-in-use'));
    await expect(state(NodeState.NEW)).rejects.toEqual(coded('role-state-move'));
    const roles = create(CuratorContract.method.setNodeRoles.input, {
      nodeId,
      roles: [],
      mutation: mutation(),
    });
    await curator.setNodeRoles(roles, as(owner));
    expect((await state(NodeState.DECOMMISSIONED)).node).toMatchObject({ state: NodeState.DECOMMISSIONED });
    await expect(state(NodeState.UP)).rejects.toEqual(coded('role-state-move'));
    await remove();
    expect((await etcd.list(`nodes/${nodeId}/`, { signal })).entries).toEqual([]);
    await expect(remove()).rejects.toEqual(coded('curator-node-unknown'));
  });

  test('approval moves a node from NEW to STANDBY, twice is once, and UP is not decreed (row 55)', async () => {
    const { curator, cluster, owner } = await createCurators();
    const nodeId = idOf(await cluster.addNode('n', { state: 'NEW' }));
    const state = (to: NodeState) =>
      curator.setNodeState(
        create(CuratorContract.method.setNodeState.input, { nodeId, state: to, mutation: mutation() }),
        as(owner),
      );
    await expect(state(NodeState.UP)).rejects.toEqual(coded('role-state-move'));
    for (let i = 0; i < 2; i++)
      expect((await state(NodeState.STANDBY)).node).toMatchObject({ state: NodeState.STANDBY });
    await expect(state(NodeState.UP)).rejects.toEqual(coded('curator-request-invalid'));
  });

  test.each([
    { name: 'a key with two slashes', set: { 'a/b/c': 'x' }, remove: [] },
    { name: 'a key of 64 characters', set: { ['a'.repeat(64)]: 'x' }, remove: [] },
    { name: 'a value with a space', set: { a: 'x y' }, remove: [] },
    { name: 'the same key set and removed', set: { a: 'x' }, remove: ['a'] },
    {
      name: 'more than 128 labels',
      set: Object.fromEntries(Array.from({ length: 129 }, (_, i) => [`l${i}`, 'x'])),
      remove: [],
    },
  ])('updateNodeLabels() refuses $name', async ({ set, remove }) => {
    const { curator, cluster, owner } = await createCurators();
    const nodeId = idOf(await cluster.addNode('n'));
    const request = create(CuratorContract.method.updateNodeLabels.input, {
      nodeId,
      set,
      remove,
      mutation: mutation(),
    });
    await expect(curator.updateNodeLabels(request, as(owner))).rejects.toEqual(
      coded('curator-request-invalid'),
    );
  });
});

describe('status and heartbeats', () => {
  const status = (address: string) =>
    create(CuratorContract.method.updateNodeStatus.input, { status: create(NodeStatusSchema, { address }) });

  test('health goes from UNKNOWN to HEALTHY to TIMEOUT and back, without a write per beat (row 63)', async () => {
    const { curators, cluster, owner, etcd } = await createCurators(2);
    const [here, there] = curators as [(typeof curators)[0], (typeof curators)[0]];
    const node = await cluster.addNode('n');
    const health = async () =>
      (await here.getNode(create(CuratorContract.method.getNode.input, { node: 'n' }), as(owner))).node
        ?.health;
    const beat = async (curator: typeof here) => {
      for await (const answer of curator.heartbeat(one({}) as never, as(node)))
        expect(answer.timeoutMs).toBeGreaterThanOrEqual(2n * (answer.intervalMs ?? 0n));
    };
    expect(await health()).toBe(NodeHealth.UNKNOWN);
    await beat(here);
    expect(await health()).toBe(NodeHealth.HEALTHY);
    const { revision } = etcd;
    for (let i = 0; i < 5; i++) await beat(i % 2 === 0 ? there : here);
    expect(etcd.revision).toBe(revision);
    await here.updateNodeStatus(status('192.0.2.1'), as(node));
    const lease = (await etcd.get(records.heartbeat.key(idOf(node)), { signal }))?.leaseId ?? 0n;
    etcd.expireLease(lease);
    expect(await health()).toBe(NodeHealth.TIMEOUT);
    await beat(there);
    expect(await health()).toBe(NodeHealth.HEALTHY);
  });

  test('the same status again changes nothing, another one does', async () => {
    const { curator, first, etcd } = await createCurators();
    await curator.updateNodeStatus(status('192.0.2.1'), as(first));
    const { revision } = etcd;
    await curator.updateNodeStatus(status('192.0.2.1'), as(first));
    expect(etcd.revision).toBe(revision);
    await curator.updateNodeStatus(status('192.0.2.2'), as(first));
    expect(etcd.revision).toBe(revision + 1n);
  });

  test('getClusterInfo() lists the curators that said where they are', async () => {
    const { curator, first, cluster, owner } = await createCurators();
    const worker = await cluster.addNode('worker', { roles: ['KubernetesWorker'] });
    const says = (curatorEndpoint: string) =>
      create(CuratorContract.method.updateNodeStatus.input, {
        status: create(NodeStatusSchema, { curatorEndpoint }),
      });
    await curator.updateNodeStatus(says('192.0.2.1:9091'), as(first));
    await curator.updateNodeStatus(says('192.0.2.66:9091'), as(worker));
    const info = await curator.getClusterInfo(create(CuratorContract.method.getClusterInfo.input), as(owner));
    expect(info).toMatchObject({
      clusterId: 'c0ffee',
      epoch: 1n,
      directory: [{ nodeId: idOf(first), curatorEndpoint: '192.0.2.1:9091' }],
    });
  });
});

describe('watches', () => {
  const request = (after?: { epoch: bigint; revision: bigint }) =>
    create(CuratorContract.method.watchNodes.input, after === undefined ? {} : { after });

  test('a watch resumes at another curator with only what came after, deletions included (row 68)', async () => {
    const { curators, cluster, owner } = await createCurators(2);
    const [here, there] = curators as [(typeof curators)[0], (typeof curators)[0]];
    const gone = await cluster.addNode('gone');
    await settle();
    const before = follow(here.watchNodes(request(), as(owner)));
    const listed = await before.next();
    expect(listed).toMatchObject({ relist: true, caughtUp: true });
    await before.end();
    const added = await cluster.addNode('added');
    await cluster.forget(gone);
    await settle();
    const after = follow(there.watchNodes(request(listed.position), as(owner)));
    const told = await after.next();
    expect(told.relist).toBe(false);
    expect(told.nodes.map(({ nodeId }) => nodeId)).toEqual([idOf(added)]);
    expect(told.deletedNodeIds).toEqual([idOf(gone)]);
    await after.end();
  });

  test.each([
    { name: 'of another epoch', epoch: 0n, revision: (now: bigint) => now },
    { name: 'from the future', epoch: 1n, revision: (now: bigint) => now + 100n },
  ])('a position $name is told everything anew', async ({ epoch, revision }) => {
    const { curator, owner, etcd, clock } = await createCurators();
    const watch = follow(
      curator.watchNodes(request({ epoch, revision: revision(etcd.revision) }), as(owner)),
    );
    const told = watch.next();
    await clock.advance(2_000);
    expect(await told).toMatchObject({ relist: true, caughtUp: true, position: { epoch: 1n } });
    await watch.end();
  });

  test('listNodes() gives a position from which a watch misses nothing and is told nothing twice', async () => {
    const { curator, cluster, owner } = await createCurators();
    const { position } = await curator.listNodes(create(CuratorContract.method.listNodes.input), as(owner));
    await cluster.addOperator('noise', 'viewer');
    const added = await cluster.addNode('added');
    await settle();
    const watch = follow(
      curator.watchNodes(request(position as { epoch: bigint; revision: bigint }), as(owner)),
    );
    const told = await watch.next();
    expect(told).toMatchObject({ relist: false, nodes: [{ nodeId: idOf(added) }] });
    expect(told.nodes).toHaveLength(1);
    await watch.end();
  });

  test('a watch that comes from a faster curator waits for this one instead of being shown the past', async () => {
    const { curator, cluster, owner, etcd } = await createCurators();
    const ahead = { epoch: 1n, revision: etcd.revision + 2n };
    const watch = follow(curator.watchNodes(request(ahead), as(owner)));
    const told = watch.next();
    await settle();
    await cluster.addNode('n'); // its record and its name are two revisions
    const later = await cluster.addNode('later');
    await settle();
    expect(await told).toMatchObject({ relist: false });
    expect(later.identity.kind).toBe('node');
    await watch.end();
  });

  test('a slow watcher skips states in between and gets the last one of each node', async () => {
    const { curator, cluster, owner, etcd } = await createCurators();
    const node = await cluster.addNode('n');
    await settle();
    const watch = follow(curator.watchNodes(request(), as(owner)));
    await watch.next();
    const key = records.node.key(idOf(node));
    const record = records.node.decode(key, (await etcd.get(key, { signal }))?.value ?? new Uint8Array());
    for (let i = 0; i < 100; i++)
      etcd.commitNow({
        when: [],
        then: [put(key, records.node.encode({ ...record, labels: { i: String(i) } }))],
      });
    await settle();
    const told = await watch.next();
    expect(told.nodes).toMatchObject([{ labels: { i: '99' } }]);
    await watch.end();
  });

  test('when etcd is lost, watches end with a code that says "ask another curator", and come back after', async () => {
    const { curator, owner, etcd } = await createCurators();
    const watch = follow(curator.watchNodes(request(), as(owner)));
    await watch.next();
    const next = watch.next();
    etcd.setOutage(new EtcdError('etcd-unavailable', 'testing'));
    await expect(next).rejects.toMatchObject({ code: 'etcd-unavailable', retryable: true });
    etcd.setOutage(undefined);
    const again = follow(curator.watchNodes(request(), as(owner)));
    expect(await again.next()).toMatchObject({ caughtUp: true });
    await again.end();
  });

  test('700 nodes arrive in parts, with one mark at the end of what was there', async () => {
    const { curator, cluster, owner, etcd } = await createCurators();
    const template = await cluster.addNode('n');
    const key = records.node.key(idOf(template));
    const record = records.node.decode(key, (await etcd.get(key, { signal }))?.value ?? new Uint8Array());
    for (let i = 0; i < 700; i++)
      etcd.commitNow({
        when: [],
        then: [put(records.node.key(`x${i}`), records.node.encode({ ...record, nodeId: `x${i}` }))],
      });
    await settle();
    const watch = follow(curator.watchNodes(request(), as(owner)));
    const seen = new Set<string>();
    const marks: boolean[] = [];
    while (marks.at(-1) !== true) {
      const told = await watch.next();
      for (const { nodeId } of told.nodes) seen.add(nodeId);
      marks.push(told.caughtUp);
    }
    expect(seen.size).toBe(702);
    expect(marks.length).toBeGreaterThan(1);
    await watch.end();
  });
});

async function* one(message: unknown, staysOpen = false) {
  yield message;
  if (staysOpen) await new Promise(() => undefined);
}

function isIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}
