import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { join } from 'node:path';
import { SystemClock } from '../../internal/clock/index.ts';
import { BlobStore } from '../../internal/bundle/index.ts';
import { Namespace } from '../../internal/etcd/index.ts';
import { DiskFiles, DiskStreams } from '../../internal/file/index.ts';
import { CLUSTER_PREFIX } from '../../internal/records/index.ts';
import { createClient } from '../../internal/rpc/index.ts';
import {
  closeOpened,
  createMemoryLogger,
  opened,
  temporaryDirectory,
  TestCluster,
  TestEtcd,
  TestOwner,
  untilServing,
  type TestMember,
  type TestPeer,
} from '../../internal/testing/index.ts';
import { Curator, NodeHealth, NodeRole, type WatchNodesResponse } from '../curatorproto/gen/curator_pb.js';
import { Distribution } from '../curatorproto/gen/distribution_pb.js';
import { coded, openCuratorChannel, writeCuratorConfig } from './fake-service.ts';
import { serve } from './serve.ts';

const signal = new AbortController().signal;
const clock = new SystemClock();
const mutation = () => ({ idempotencyKey: crypto.randomUUID() });

const signer = new TestOwner({ clock });
let etcd: TestEtcd;
let member: TestMember;
let cluster: TestCluster;
let first: TestPeer;
let owner: TestPeer;
let directory: string;
const ports: number[] = [];

/** Two curators of one cluster on one real etcd. */
beforeAll(async () => {
  directory = opened(await temporaryDirectory()).path;
  etcd = opened(await TestEtcd.create());
  member = await etcd.startMember('one');
  const root = await etcd.connect('root', member.endpoint);
  await untilServing(root);
  cluster = await TestCluster.create(new Namespace(root, CLUSTER_PREFIX), () => clock.nowMs(), signer);
  first = await cluster.addNode('first', { roles: ['ConsensusMember'] });
  owner = await cluster.addOperator('owner', 'owner');
  const world = { cluster, signer, etcd, member };
  const written = await writeCuratorConfig(directory, world, { node: first, etcdUser: 'curator' });
  const config = { ...written, nodeId: 'first', stores: [join(directory, 'store')] };
  for (let i = 0; i < 2; i++) {
    const stop = new AbortController();
    const listening = Promise.withResolvers<number>();
    const log = createMemoryLogger().log;
    const serving = serve(
      config,
      { files: new DiskFiles(), streams: new DiskStreams(), clock, log },
      { signal: stop.signal, onListening: listening.resolve },
    );
    serving.catch((error: unknown) => listening.reject(error));
    ports.push(await listening.promise);
    opened({
      [Symbol.asyncDispose]: async () => {
        stop.abort(new Error('the test is over'));
        await serving.catch(() => undefined);
      },
    });
  }
}, 30_000);

afterAll(closeOpened, 20_000);

function dial(peer: Pick<TestPeer, 'tls'>, curator = 0, trust = cluster.trust) {
  return createClient(Curator, channelOf(peer, curator, trust));
}

function channelOf(peer: Pick<TestPeer, 'tls'>, curator: number, trust = cluster.trust) {
  return opened(openCuratorChannel(`127.0.0.1:${ports[curator]}`, peer.tls, trust));
}

describe('the curator over mTLS with a real etcd', () => {
  test('sends a member the directory, and a blob from a given offset, and refuses an unauthenticated client', async () => {
    const bytes = randomBytes(3 * 1024 * 1024);
    const streams = new DiskStreams();
    const store = new BlobStore({ files: new DiskFiles(), streams, roots: [join(directory, 'store')] });
    const { sha256 } = await store.put(Readable.from([bytes]), { signal });
    const node = await cluster.addNode('fetcher');
    const client = createClient(Distribution, channelOf(node, 1));
    const got: Uint8Array[] = [];
    for await (const { data } of client.fetchBlob({ sha256, offset: 1_000_000n }, { signal })) got.push(data);
    expect(Buffer.concat(got).equals(bytes.subarray(1_000_000))).toBe(true);
    const absent = client.fetchBlob({ sha256: 'ab'.repeat(32) }, { signal })[Symbol.asyncIterator]();
    await expect(absent.next()).rejects.toEqual(coded('distribution-blob-missing'));
    await dial(first).updateNodeStatus(
      { status: { address: '198.51.100.1', curatorEndpoint: '198.51.100.1:1' } },
      { signal },
    );
    const watch = client.watchDirectory({}, { signal })[Symbol.asyncIterator]();
    expect((await watch.next()).value).toMatchObject({
      controlPlanes: [{ name: 'first', address: '198.51.100.1', curatorEndpoint: '198.51.100.1:1' }],
    });
    await cluster.forget(node);
    await expect(watch.next()).rejects.toEqual(coded('curator-not-member'));
    const again = client.fetchBlob({ sha256 }, { signal })[Symbol.asyncIterator]();
    await expect(again.next()).rejects.toEqual(coded('curator-not-member'));
  });

  test('sends a change at one curator to a watch at another curator, and reports the state of etcd', async () => {
    const node = await cluster.addNode('n1');
    const nodeId = node.identity.kind === 'node' ? node.identity.nodeId : '';
    const watch = dial(node, 1).watchNode({ nodeId }, { signal })[Symbol.asyncIterator]();
    expect((await watch.next()).value).toMatchObject({ relist: true, nodes: [{ nodeId, roles: [] }] });
    const changed = watch.next();
    const startedMs = performance.now();
    await dial(owner, 0).setNodeRoles(
      { nodeId, roles: [NodeRole.KUBERNETES_WORKER], mutation: mutation() },
      { signal },
    );
    expect((await changed).value).toMatchObject({ nodes: [{ roles: [NodeRole.KUBERNETES_WORKER] }] });
    expect(performance.now() - startedMs).toBeLessThan(2_000);
    await watch.return?.();
    const info = await dial(owner, 1).getClusterInfo({}, { signal });
    expect(info.etcd).toMatchObject({
      hasLeader: true,
      quotaBytes: 2n ** 31n,
      members: [{ name: 'one', started: true }],
    });
    expect(info.etcd?.members[0]?.answers).toBe(undefined); // members are asked only on request
    const probed = await dial(owner, 1).getClusterInfo({ probeMembers: true }, { signal });
    expect(probed.etcd?.members).toMatchObject([{ name: 'one', answers: true }]);
    expect(info.etcd?.dbSizeBytes).toBeGreaterThan(0n);
    expect(info.certificates.map(({ name }) => name)).toEqual(['curator', 'cluster-ca', 'etcd-client']);
  });

  test('keeps one lease for a node with heartbeats at two curators', async () => {
    const node = await cluster.addNode('n2');
    async function* heartbeats() {
      yield {};
      yield {};
    }
    for (const curator of [0, 1, 0]) {
      let answers = 0;
      for await (const _ of dial(node, curator).heartbeat(heartbeats(), { signal })) answers++;
      expect(answers).toBe(2);
    }
    expect((await dial(owner).getNode({ node: 'n2' }, { signal })).node?.health).toBe(NodeHealth.HEALTHY);
  });

  test('60 nodes watch themselves, and each node receives one change of its own record', async () => {
    const nodes = await Promise.all(Array.from({ length: 60 }, (_, i) => cluster.addNode(`many-${i}`)));
    const client = dial(first, 0);
    const admin = dial(owner, 1);
    await Promise.all(
      nodes.map(async ({ identity }) => {
        const nodeId = identity.kind === 'node' ? identity.nodeId : '';
        const seen = client.watchNode({ nodeId }, { signal })[Symbol.asyncIterator]();
        await seen.next();
        await admin.updateNodeLabels({ nodeId, set: { seen: 'yes' }, mutation: mutation() }, { signal });
        const told = (await seen.next()).value as WatchNodesResponse;
        expect(told.nodes).toMatchObject([{ nodeId, labels: { seen: 'yes' } }]);
        await seen.return?.();
      }),
    );
  }, 30_000);

  test('the curator refuses an unknown certificate, one of another cluster, and a deleted node at once', async () => {
    const node = await cluster.addNode('n3');
    const client = dial(node, 0);
    await client.checkHealth({}, { signal });
    const watch = dial(node, 1).watchNodes({}, { signal })[Symbol.asyncIterator]();
    await watch.next();
    await cluster.forget(node);
    await expect(client.checkHealth({}, { signal })).rejects.toEqual(coded('curator-not-member'));
    await expect(
      (async () => {
        for (;;) await watch.next();
      })(),
    ).rejects.toEqual(coded('curator-not-member'));

    const root = await etcd.connect('root', member.endpoint);
    const foreign = await TestCluster.create(new Namespace(root, '/foreign/'), () => clock.nowMs());
    const eve = await foreign.addOperator('owner', 'owner');
    await expect(dial(eve).checkHealth({}, { signal })).rejects.toEqual(coded('rpc-unreachable'));
    // Conversely, a member does not talk to a curator of another CA.
    await expect(dial(owner, 0, foreign.trust).checkHealth({}, { signal })).rejects.toEqual(
      coded('pki-untrusted'),
    );
  });

  test('the curator refuses calls and ends watches while etcd is unavailable, and serves again afterwards', async () => {
    const client = dial(owner, 0);
    const watch = client.watchNodes({}, { signal })[Symbol.asyncIterator]();
    const position = ((await watch.next()).value as WatchNodesResponse).position;
    await member.kill();
    await expect(
      (async () => {
        for (;;) await watch.next();
      })(),
    ).rejects.toEqual(coded('etcd-unavailable'));
    await expect(client.checkHealth({}, { signal })).rejects.toEqual(coded('etcd-unavailable'));
    await member.restart();
    await untilServing(await etcd.connect('root', member.endpoint));
    const deadline = AbortSignal.timeout(10_000);
    for (;;) {
      const healthy = await client.checkHealth({}, { signal }).then(
        () => true,
        () => false,
      );
      if (healthy) break;
      deadline.throwIfAborted();
    }
    const added = await cluster.addNode('after');
    const again = dial(owner, 1).watchNodes(position === undefined ? {} : { after: position }, { signal });
    for await (const told of again) {
      expect(told.relist && position === undefined).toBe(false);
      if (told.nodes.some(({ name }) => name === 'after')) break;
    }
    expect(added.identity.kind).toBe('node');
  }, 30_000);
});
