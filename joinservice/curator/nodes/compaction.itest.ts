import { create } from '@bufbuild/protobuf';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { SystemClock } from '../../../internal/clock/index.ts';
import { Namespace, put, type EtcdClient } from '../../../internal/etcd/index.ts';
import { CLUSTER_PREFIX, records } from '../../../internal/records/index.ts';
import {
  createMemoryLogger,
  TcpProxy,
  TestCluster,
  TestEtcd,
  untilServing,
  type TestPeer,
} from '../../../internal/testing/index.ts';
import {
  Curator as Contract,
  type WatchNodesResponse,
  type WatchPosition,
} from '../../curatorproto/gen/curator_pb.js';
import { nodeIdOf, type CuratorHandlers } from '../fake-curators.ts';
import { FakeOwner } from '../../ownerdocs/fake-owner.ts';
import { Curator } from '../curator.ts';

const clock = new SystemClock();
const signal = AbortSignal.timeout(60_000);
const OUTAGE: unknown = expect.objectContaining({ retryable: true });

let etcd: TestEtcd;
let root: EtcdClient;
let endpoint: string;
const open: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  etcd = await TestEtcd.create();
  ({ endpoint } = await etcd.startMember('one'));
  root = await etcd.connect('root', endpoint);
  await untilServing(root);
}, 30_000);

afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

afterAll(() => etcd[Symbol.asyncDispose]());

/**
 * A curator that reaches etcd only through a connection that the test can cut. Other clients connect
 * directly.
 */
async function createCurator() {
  const space = new Namespace(root, CLUSTER_PREFIX);
  const signer = new FakeOwner({ clock });
  const cluster = await TestCluster.create(space, () => clock.nowMs(), signer);
  const owner = await cluster.addOperator('owner', 'owner');
  const wire = new TcpProxy(endpoint);
  open.push(() => wire[Symbol.asyncDispose]());
  const far = await etcd.connect('root', await wire.open());
  const facts = {
    certificates: [],
    etcdStatus: async () => ({
      dbSizeBytes: 1n,
      quotaBytes: 2n,
      hasLeader: true,
      isFull: false,
      isCorrupt: false,
      members: [],
    }),
    etcdMembers: async () => [],
  };
  const log = createMemoryLogger().log;
  const own = new Namespace(far, CLUSTER_PREFIX);
  const ownerDocs = signer.ownerDocs(own);
  const parts = { etcd: own, ownerDocs, nodeId: 'first', facts, clock, log };
  const curator = new Curator(parts);
  const stop = new AbortController();
  const run = curator.run(stop.signal).catch((error: unknown) => error);
  open.push(async () => (stop.abort(new Error('the test is over')), await run));
  const handlers = curator.service.handlers as unknown as CuratorHandlers;
  return { cluster, owner, wire, handlers, space, feed: curator.nodes };
}

/** The nodes that a client of `WatchNodes` knows from the messages that it received. */
class KnownNodes {
  readonly nodes = new Map<string, string>();
  position: WatchPosition | undefined;
  relists = 0;

  receive(message: WatchNodesResponse): void {
    if (message.relist) this.nodes.clear();
    if (message.relist) this.relists++;
    for (const { nodeId, labels } of message.nodes) this.nodes.set(nodeId, labels['v'] ?? '');
    for (const nodeId of message.deletedNodeIds) this.nodes.delete(nodeId);
    this.position = message.position ?? this.position;
  }
}

function watch({ handlers, owner }: Awaited<ReturnType<typeof createCurator>>, after?: WatchPosition) {
  const request = create(Contract.method.watchNodes.input, after === undefined ? {} : { after });
  const call = { peer: owner.identity, signal, address: '127.0.0.1' };
  const messages = handlers.watchNodes(request, call)[Symbol.asyncIterator]();
  return async (): Promise<WatchNodesResponse> => (await messages.next()).value as WatchNodesResponse;
}

describe('watches after etcd was unavailable', () => {
  test.each([
    {
      name: 'resume from their position while etcd still has the changes that they missed',
      compacts: false,
      relists: 1,
    },
    {
      name: 'list all nodes again if etcd has compacted the changes that they missed',
      compacts: true,
      relists: 2,
    },
  ])('watches $name; the latest state of each node is never lost', async ({ compacts, relists }) => {
    const parts = await createCurator();
    const { cluster, wire } = parts;
    const [stays, goes] = [await cluster.addNode('stays'), await cluster.addNode('goes')];
    const known = new KnownNodes();
    let next = watch(parts);
    while (!known.nodes.has(nodeIdOf(goes))) known.receive(await next());
    const ended = next();
    wire.cut();
    await expect(ended).rejects.toEqual(OUTAGE);
    // Changes while the curator is disconnected: one node changes repeatedly, one is deleted, one is created.
    for (let v = 1; v <= 50; v++) await label(parts.space, stays, String(v));
    await cluster.forget(goes);
    const added = await cluster.addNode('added');
    if (compacts) await root.compact((await root.list('/', { signal })).revision, { signal });
    wire.restore();
    // The feed follows etcd again.
    while (parts.feed.view(nodeIdOf(added)) === undefined) await clock.sleep(20, signal);
    const wanted = new Map([
      [nodeIdOf(stays), '50'],
      [nodeIdOf(added), ''],
    ]);
    next = watch(parts, known.position);
    while (!wanted.entries().every(([nodeId, v]) => known.nodes.get(nodeId) === v)) {
      try {
        known.receive(await next());
      } catch (error) {
        // etcd is still unavailable, so the watch is opened once more, as every client does
        expect(error).toEqual(OUTAGE);
        await clock.sleep(50, signal);
        next = watch(parts, known.position);
      }
    }
    expect(known.nodes.has(nodeIdOf(goes))).toBe(false);
    expect(known.relists).toBe(relists);
  });
});

/** Writes to etcd directly, as another curator would. */
async function label(space: Namespace, peer: TestPeer, v: string): Promise<void> {
  const key = records.node.key(nodeIdOf(peer));
  const record = records.node.decode(key, (await space.get(key, { signal }))?.value ?? new Uint8Array());
  const value = records.node.encode({ ...record, labels: { v } });
  await space.commit({ when: [], then: [put(key, value)] }, { signal });
}
