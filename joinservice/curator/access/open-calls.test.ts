import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import type { WatchEvent, WatchOptions } from '../../../internal/etcd/index.ts';
import { MemoryEtcd, settle, type TestPeer } from '../../../internal/testing/index.ts';
import { Curator as Contract, NodeState } from '../../curatorproto/gen/curator_pb.js';
import { nodeIdOf, TestCurators, type CuratorHandlers } from '../fake-curators.ts';

const signal = new AbortController().signal;
const CURATORS = 3;
const notMember: unknown = expect.objectContaining({ code: 'curator-not-member', retryable: false });

describe('calls of a deleted node', () => {
  const calls: readonly {
    readonly name: string;
    readonly call: (at: CuratorHandlers, by: TestPeer) => Promise<unknown>;
  }[] = [
    {
      name: 'a call that reads',
      call: (at, by) => at.listNodes(create(Contract.method.listNodes.input), as(by)),
    },
    {
      name: 'a status report',
      call: (at, by) =>
        at.updateNodeStatus(create(Contract.method.updateNodeStatus.input, { status: {} }), as(by)),
    },
    {
      name: 'a heartbeat',
      call: (at, by) => first(at.heartbeat(heartbeats(), as(by))),
    },
    {
      name: 'a watch of its own node',
      call: (at, by) =>
        first(at.watchNode(create(Contract.method.watchNode.input, { nodeId: nodeIdOf(by) }), as(by))),
    },
  ];

  test.each(calls)('every curator refuses the next call of a deleted node: $name', async ({ call }) => {
    await using curators = await TestCurators.create(CURATORS);
    const node = await curators.cluster.addNode('n');
    for (let at = 0; at < CURATORS; at++) await expect(call(curators.at(at), node)).resolves.toBeDefined();
    await takeOut(curators, node);
    for (let at = 0; at < CURATORS; at++)
      await expect(call(curators.at(at), node)).rejects.toEqual(notMember);
  });
});

describe('one etcd watch', () => {
  /** An etcd that counts the open watches. */
  class CountingEtcd extends MemoryEtcd {
    watches = 0;

    override watch(prefix: string, options: WatchOptions): AsyncGenerator<WatchEvent> {
      this.watches++;
      return super.watch(prefix, options);
    }
  }

  test('serves all watchers of a curator, and each watcher sees a change once', async () => {
    const etcd = new CountingEtcd();
    await using curators = await TestCurators.create(1, etcd);
    const before = etcd.watches;
    const node = await curators.cluster.addNode('n');
    await settle();
    const stop = new AbortController();
    const watchers = Array.from({ length: 50 }, (_, index) => {
      const request =
        index % 2 === 0
          ? curators
              .at(0)
              .watchNodes(create(Contract.method.watchNodes.input), as(curators.owner, stop.signal))
          : curators
              .at(0)
              .watchNode(
                create(Contract.method.watchNode.input, { nodeId: nodeIdOf(node) }),
                as(node, stop.signal),
              );
      return request[Symbol.asyncIterator]();
    });
    for (const watcher of watchers) await watcher.next();
    const told = watchers.map((watcher) => watcher.next());
    await curators.at(0).updateNodeLabels(
      create(Contract.method.updateNodeLabels.input, {
        nodeId: nodeIdOf(node),
        set: { zone: 'a' },
        mutation: { idempotencyKey: crypto.randomUUID() },
      }),
      as(curators.owner),
    );
    for (const each of told)
      expect((await each).value).toMatchObject({ relist: false, nodes: [{ labels: { zone: 'a' } }] });
    expect(etcd.watches).toBe(before);
    stop.abort(new Error('enough'));
  });
});

/** Ends the membership of a node with the same steps as `cluster node remove`. */
async function takeOut(curators: TestCurators, node: TestPeer): Promise<void> {
  const nodeId = nodeIdOf(node);
  const mutation = () => ({ idempotencyKey: crypto.randomUUID() });
  const { setNodeState, deleteNode } = Contract.method;
  const state = { nodeId, state: NodeState.DECOMMISSIONED, mutation: mutation() };
  await curators.at(0).setNodeState(create(setNodeState.input, state), as(curators.owner));
  await curators
    .at(1)
    .deleteNode(create(deleteNode.input, { nodeId, mutation: mutation() }), as(curators.owner));
}

function as(peer: TestPeer, callSignal = signal) {
  return { peer: peer.identity, signal: callSignal, address: '127.0.0.1' };
}

async function first(messages: AsyncIterable<unknown>): Promise<unknown> {
  for await (const message of messages) return message;
  return undefined;
}

async function* heartbeats() {
  yield create(Contract.method.heartbeat.input);
}
