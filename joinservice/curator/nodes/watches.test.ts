import { create } from '@bufbuild/protobuf';
import { afterEach, describe, expect, test } from '@jest/globals';
import { EtcdError, put } from '../../../internal/etcd/index.ts';
import { records } from '../../../internal/records/index.ts';
import { settle } from '../../../internal/testing/index.ts';
import { Curator as CuratorContract } from '../../curatorproto/gen/curator_pb.js';
import { as, curatorsOfTests, follow, nodeIdOf } from '../fake-curators.ts';

const signal = new AbortController().signal;
const createCurators = curatorsOfTests(afterEach);

describe('watches', () => {
  const request = (after?: { epoch: bigint; revision: bigint }) =>
    create(CuratorContract.method.watchNodes.input, after === undefined ? {} : { after });

  test('resume at another curator and send only later changes, including deletions', async () => {
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
    expect(told.nodes.map(({ nodeId }) => nodeId)).toEqual([nodeIdOf(added)]);
    expect(told.deletedNodeIds).toEqual([nodeIdOf(gone)]);
    await after.end();
  });

  test('send a node that was deleted and created again with the same content, and send its deletion first', async () => {
    const { curator, cluster, owner, etcd } = await createCurators();
    const peer = await cluster.addNode('here');
    const key = records.node.key(nodeIdOf(peer));
    const record = await etcd.get(key, { signal });
    if (record === undefined) throw new Error('it is on record');
    await settle();
    const watch = follow(curator.watchNodes(request(), as(owner)));
    expect((await watch.next()).nodes.map(({ nodeId }) => nodeId)).toContain(nodeIdOf(peer));
    await cluster.forget(peer);
    expect(await watch.next()).toMatchObject({ nodes: [], deletedNodeIds: [nodeIdOf(peer)] });
    await etcd.commit({ when: [], then: [put(key, record.value)] }, { signal });
    expect(await watch.next()).toMatchObject({ nodes: [{ nodeId: nodeIdOf(peer) }], deletedNodeIds: [] });
    await watch.end();
  });

  test.each([
    { name: 'a position of another epoch', epoch: 0n, revision: (now: bigint) => now },
    { name: 'a position of a future revision', epoch: 1n, revision: (now: bigint) => now + 100n },
  ])('list everything again from $name', async ({ epoch, revision }) => {
    const { curator, owner, etcd, clock } = await createCurators();
    const watch = follow(
      curator.watchNodes(request({ epoch, revision: revision(etcd.revision) }), as(owner)),
    );
    const told = watch.next();
    await clock.advance(2_000);
    expect(await told).toMatchObject({ relist: true, caughtUp: true, position: { epoch: 1n } });
    await watch.end();
  });

  test('that start from the position of listNodes() miss no change and repeat none', async () => {
    const { curator, cluster, owner } = await createCurators();
    const { position } = await curator.listNodes(create(CuratorContract.method.listNodes.input), as(owner));
    await cluster.addOperator('noise', 'viewer');
    const added = await cluster.addNode('added');
    await settle();
    const watch = follow(
      curator.watchNodes(request(position as { epoch: bigint; revision: bigint }), as(owner)),
    );
    const told = await watch.next();
    expect(told).toMatchObject({ relist: false, nodes: [{ nodeId: nodeIdOf(added) }] });
    expect(told.nodes).toHaveLength(1);
    await watch.end();
  });

  test('wait for a curator that lags behind, and do not send earlier states again', async () => {
    const { curator, cluster, owner, etcd } = await createCurators();
    const ahead = { epoch: 1n, revision: etcd.revision + 2n };
    const watch = follow(curator.watchNodes(request(ahead), as(owner)));
    const told = watch.next();
    await settle();
    // Raises the revision of etcd by two: one for the record and one for the name of the node.
    await cluster.addNode('n');
    const later = await cluster.addNode('later');
    await settle();
    expect(await told).toMatchObject({ relist: false });
    expect(later.identity.kind).toBe('node');
    await watch.end();
  });

  test('skip intermediate states for a slow reader, but never the latest state', async () => {
    const { curator, cluster, owner, etcd } = await createCurators();
    const node = await cluster.addNode('n');
    await settle();
    const watch = follow(curator.watchNodes(request(), as(owner)));
    await watch.next();
    const key = records.node.key(nodeIdOf(node));
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

  test('end with a retryable code when etcd is unavailable, and work again afterwards', async () => {
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

  test('send 700 nodes in batches, and `caught_up` once at the end', async () => {
    const { curator, cluster, owner, etcd } = await createCurators();
    const template = await cluster.addNode('n');
    const key = records.node.key(nodeIdOf(template));
    const record = records.node.decode(key, (await etcd.get(key, { signal }))?.value ?? new Uint8Array());
    for (let i = 0; i < 700; i++)
      etcd.commitNow({
        when: [],
        then: [put(records.node.key(`x${i}`), records.node.encode({ ...record, nodeId: `x${i}` }))],
      });
    await settle();
    const watch = follow(curator.watchNodes(request(), as(owner)));
    const seen = new Set<string>();
    const endsOfList: boolean[] = [];
    while (endsOfList.at(-1) !== true) {
      const told = await watch.next();
      for (const { nodeId } of told.nodes) seen.add(nodeId);
      endsOfList.push(told.caughtUp);
    }
    expect(seen.size).toBe(702);
    expect(endsOfList.length).toBeGreaterThan(1);
    await watch.end();
  });
});
