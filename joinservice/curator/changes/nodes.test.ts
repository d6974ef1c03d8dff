import { create } from '@bufbuild/protobuf';
import { afterEach, describe, expect, test } from '@jest/globals';
import { remove } from '../../../internal/etcd/index.ts';
import { records } from '../../../internal/records/index.ts';
import type { TestPeer } from '../../../internal/testing/index.ts';
import { Curator as CuratorContract, NodeRole, NodeState } from '../../curatorproto/gen/curator_pb.js';
import { as, curatorsOfTests, follow, mutation, nodeIdOf } from '../fake-curators.ts';

const signal = new AbortController().signal;
const coded = (code: string): unknown => expect.objectContaining({ code });
const createCurators = curatorsOfTests(afterEach);
type Nodes = Awaited<ReturnType<typeof createCurators>>;

describe('nodes', () => {
  test('setNodeRoles() changes the roles, and a watch at another curator sees the change', async () => {
    const { curators, cluster, owner } = await createCurators(2);
    const [here, there] = curators as [(typeof curators)[0], (typeof curators)[0]];
    const node = await cluster.addNode('n');
    const watch = follow(
      there.watchNode(create(CuratorContract.method.watchNode.input, { nodeId: nodeIdOf(node) }), as(node)),
    );
    expect(await watch.next()).toMatchObject({ relist: true, caughtUp: true, nodes: [{ roles: [] }] });
    const request = create(CuratorContract.method.setNodeRoles.input, {
      nodeId: nodeIdOf(node),
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

  test('a mutation is made once for each idempotency key, and another request with the same key is refused', async () => {
    const { curators, cluster, owner, etcd } = await createCurators(2);
    const node = await cluster.addNode('n');
    const request = (value: string) =>
      create(CuratorContract.method.updateNodeLabels.input, {
        nodeId: nodeIdOf(node),
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
        subject: nodeIdOf(node),
        detail: { set: { zone: 'a' }, changed: true },
      },
    ]);
    await expect(curators[0]?.updateNodeLabels(request('b'), as(owner))).rejects.toEqual(
      coded('curator-key-reused'),
    );
  });

  test('updateNodeLabels() retries lost races: 10 concurrent changes all take effect', async () => {
    const { curators, cluster, owner } = await createCurators(3);
    const node = await cluster.addNode('n');
    await Promise.all(
      Array.from({ length: 10 }, async (_, i) =>
        curators[i % 3]?.updateNodeLabels(
          create(CuratorContract.method.updateNodeLabels.input, {
            nodeId: nodeIdOf(node),
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

  /** The agent of a control plane reports the state of its API server and sends a heartbeat. */
  async function sendHeartbeat(
    curator: Nodes['curator'],
    peer: TestPeer,
    isApiReady: boolean,
  ): Promise<void> {
    const controlPlane = [{ name: 'kube-apiserver', ready: isApiReady }];
    const { updateNodeStatus, heartbeat } = CuratorContract.method;
    await curator.updateNodeStatus(
      create(updateNodeStatus.input, { status: { address: '192.0.2.1', controlPlane } }),
      as(peer),
    );
    const heartbeats = (async function* () {
      yield create(heartbeat.input);
    })();
    for await (const { intervalMs } of curator.heartbeat(heartbeats, as(peer)))
      expect(intervalMs).toBeDefined();
  }
  const demotion = (peer: TestPeer) =>
    create(CuratorContract.method.setNodeRoles.input, {
      nodeId: nodeIdOf(peer),
      roles: [],
      mutation: mutation(),
    });
  const CONTROL = ['ConsensusMember', 'KubernetesController'] as const;

  test('setNodeRoles() refuses to demote the last control plane, also if two demotions run at the same time', async () => {
    const { curators, cluster, owner, first } = await createCurators(2);
    const [here, there] = curators as [Nodes['curator'], Nodes['curator']];
    const second = await cluster.addNode('second', { roles: [...CONTROL] });
    for (const each of [first, second]) await sendHeartbeat(here, each, true);
    const results = await Promise.allSettled([
      here.setNodeRoles(demotion(first), as(owner)),
      there.setNodeRoles(demotion(second), as(owner)),
    ]);
    expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(results.find(({ status }) => status === 'rejected')).toMatchObject({
      reason: coded('curator-last-control-plane'),
    });
  });

  test.each([
    { name: 'has not reported a status yet', says: undefined },
    { name: 'reports that its API server is not ready', says: false },
  ])('setNodeRoles() refuses to demote a control plane while the only other one $name', async ({ says }) => {
    const { curator, cluster, owner, first } = await createCurators();
    const second = await cluster.addNode('second', { roles: [...CONTROL] });
    await sendHeartbeat(curator, first, true);
    if (says !== undefined) await sendHeartbeat(curator, second, says);
    const demote = () => curator.setNodeRoles(demotion(first), as(owner));
    await expect(demote()).rejects.toEqual(coded('curator-last-api-server'));
    await sendHeartbeat(curator, second, true);
    await demote();
  });

  test('setNodeRoles() demotes a control plane whose API server is not ready, and one without heartbeats', async () => {
    const { curator, cluster, owner, first, etcd } = await createCurators();
    const broken = await cluster.addNode('broken', { roles: [...CONTROL] });
    const lost = await cluster.addNode('lost', { roles: [...CONTROL] });
    for (const each of [first, broken]) await sendHeartbeat(curator, each, false);
    await sendHeartbeat(curator, lost, true);
    await etcd.commit({ when: [], then: [remove(records.heartbeat.key(nodeIdOf(lost)))] }, { signal });
    for (const each of [lost, broken]) await curator.setNodeRoles(demotion(each), as(owner));
    await expect(curator.setNodeRoles(demotion(first), as(owner))).rejects.toEqual(
      coded('curator-last-control-plane'),
    );
  });

  test('setNodeRoles() does not count the API server of a node without heartbeats, and demotes that node', async () => {
    const { curator, cluster, owner, first, etcd } = await createCurators();
    const lost = await cluster.addNode('lost', { roles: [...CONTROL] });
    for (const each of [first, lost]) await sendHeartbeat(curator, each, true);
    await etcd.commit({ when: [], then: [remove(records.heartbeat.key(nodeIdOf(lost)))] }, { signal });
    await expect(curator.setNodeRoles(demotion(first), as(owner))).rejects.toEqual(
      coded('curator-last-api-server'),
    );
    expect((await curator.setNodeRoles(demotion(lost), as(owner))).node).toMatchObject({ roles: [] });
  });

  test('setNodeRoles() refuses a demotion after which too few etcd voters would be healthy', async () => {
    const { curator, cluster, owner, first, etcd } = await createCurators();
    const second = await cluster.addNode('second', { roles: [...CONTROL] });
    const lost = await cluster.addNode('lost', { roles: [...CONTROL] });
    for (const each of [first, second, lost]) await sendHeartbeat(curator, each, true);
    await etcd.commit({ when: [], then: [remove(records.heartbeat.key(nodeIdOf(lost)))] }, { signal });
    await expect(curator.setNodeRoles(demotion(first), as(owner))).rejects.toMatchObject({
      code: 'curator-quorum-loss',
      message: expect.stringContaining('etcd would have 1 healthy of 2 voters, 2 needed'),
    });
    await curator.setNodeRoles(demotion(lost), as(owner));
    expect((await curator.setNodeRoles(demotion(first), as(owner))).node).toMatchObject({ roles: [] });
  });

  test.each([
    {
      name: 'a controller role without a consensus role',
      roles: [NodeRole.KUBERNETES_CONTROLLER],
      code: 'role-conflict',
    },
    { name: 'an unknown role', roles: [99 as NodeRole], code: 'curator-request-invalid' },
  ])('setNodeRoles() refuses $name', async ({ roles, code }) => {
    const { curator, cluster, owner } = await createCurators();
    const node = await cluster.addNode('n');
    const request = create(CuratorContract.method.setNodeRoles.input, {
      nodeId: nodeIdOf(node),
      roles,
      mutation: mutation(),
    });
    await expect(curator.setNodeRoles(request, as(owner))).rejects.toEqual(coded(code));
  });

  test('a node is removed in the order roles, state, record; a call that skips a step is refused', async () => {
    const { curator, cluster, owner, etcd, first } = await createCurators();
    const node = await cluster.addNode('n', { roles: ['ConsensusMember'] });
    const nodeId = nodeIdOf(node);
    await sendHeartbeat(curator, first, true);
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
    await expect(remove()).rejects.toThrow(`node "${nodeId}" not found`);
  });

  test('setNodeState() moves a node from NEW to STANDBY once, and refuses UP', async () => {
    const { curator, cluster, owner } = await createCurators();
    const nodeId = nodeIdOf(await cluster.addNode('n', { state: 'NEW' }));
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
    { name: 'a label of Kubernetes', set: { 'kubernetes.io/hostname': 'x' }, remove: [] },
    { name: 'the same key set and removed', set: { a: 'x' }, remove: ['a'] },
    {
      name: 'more than 128 labels',
      set: Object.fromEntries(Array.from({ length: 129 }, (_, i) => [`l${i}`, 'x'])),
      remove: [],
    },
  ])('updateNodeLabels() refuses $name', async ({ set, remove }) => {
    const { curator, cluster, owner } = await createCurators();
    const nodeId = nodeIdOf(await cluster.addNode('n'));
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
