import { create, type DescMethod } from '@bufbuild/protobuf';
import { afterEach, describe, expect, test } from '@jest/globals';
import { EtcdError, put } from '../../../internal/etcd/index.ts';
import { documentKey, records, type OperatorRecord } from '../../../internal/records/index.ts';
import { MemoryEtcd, settle, TestCluster, type TestPeer } from '../../../internal/testing/index.ts';
import { FakeOwner } from '../../ownerdocs/fake-owner.ts';
import { OperatorApi } from '../../curatorproto/gen/operatorapi_pb.js';
import { Curator as CuratorContract } from '../../curatorproto/gen/curator_pb.js';
import { authorizeCaller } from './authorize-caller.ts';
import { as, curatorsOfTests, follow, nodeIdOf, one } from '../fake-curators.ts';

const signal = new AbortController().signal;
const coded = (code: string): unknown => expect.objectContaining({ code });
const createCurators = curatorsOfTests(afterEach);

describe('authorizeCaller()', () => {
  test('authorizeCaller() refuses a method that no rule names, also for an owner', async () => {
    const { cluster, etcd, signer, first, owner } = await createCurators();
    const reads = { etcd, ownerDocs: signer.ownerDocs(etcd) };
    const method = { ...CuratorContract.method.getNode, name: 'GetEverything' } as DescMethod;
    for (const { identity } of [owner, first, await cluster.addOperator('v', 'viewer')])
      await expect(authorizeCaller(reads, { identity, method, signal })).rejects.toEqual(
        coded('curator-denied'),
      );
  });

  test('a refusal of authorizeCaller() names the roles that may call the method', async () => {
    const { cluster, etcd, signer, first } = await createCurators();
    const reads = { etcd, ownerDocs: signer.ownerDocs(etcd) };
    const { identity } = await cluster.addOperator('v', 'viewer');
    const refusal = async (as: typeof identity, method: DescMethod) =>
      (await authorizeCaller(reads, { identity: as, method, signal }).catch(
        (error: unknown) => error,
      )) as Error;
    const { setNodeRoles, heartbeat, getInitResult } = CuratorContract.method;
    expect((await refusal(identity, setNodeRoles)).message).toContain('requires role operator or owner');
    expect((await refusal(identity, getInitResult)).message).toContain('requires role owner');
    expect((await refusal(identity, heartbeat)).message).toContain('requires a node');
    expect((await refusal(first.identity, OperatorApi.method.listAudit)).message).toContain(
      'requires role viewer, operator or owner',
    );
  });

  test.each([
    { name: 'was deleted', change: undefined },
    { name: 'is decommissioned', change: { state: 'DECOMMISSIONED' as const } },
    { name: 'is not admitted yet', change: { state: 'STANDBY' as const } },
    { name: 'has another key on record', change: { pubKey: btoa('another') } },
  ])('refuses a node that $name although its certificate is valid', async ({ change }) => {
    const { curator, cluster, etcd } = await createCurators();
    const node = await cluster.addNode('n');
    await expect(
      curator.listNodes(create(CuratorContract.method.listNodes.input), as(node)),
    ).resolves.toBeDefined();
    if (change === undefined) await cluster.forget(node);
    else {
      const key = records.node.key(nodeIdOf(node));
      const record = records.node.decode(key, (await etcd.get(key, { signal }))?.value ?? new Uint8Array());
      etcd.commitNow({ when: [], then: [put(key, records.node.encode({ ...record, ...change }))] });
    }
    await expect(curator.listNodes(create(CuratorContract.method.listNodes.input), as(node))).rejects.toEqual(
      coded('curator-not-member'),
    );
  });

  test('authorizeCaller() allows a caller with a recorded key but no certificate to request a certificate and the cluster CA, and nothing else', async () => {
    const { cluster, etcd, signer } = await createCurators();
    const reads = { etcd, ownerDocs: signer.ownerDocs(etcd) };
    const viewer = await cluster.addOperator('v', 'viewer');
    if (viewer.identity.kind !== 'operator') throw new TypeError('no operator');
    const identity = { ...viewer.identity, isKeyOnly: true } as const;
    const enter = (method: DescMethod) => authorizeCaller(reads, { identity, method, signal });
    await expect(enter(OperatorApi.method.renewOperator)).resolves.toMatchObject({
      name: 'v',
      role: 'viewer',
    });
    const { renewOperator, getClusterCa } = OperatorApi.method;
    const allowed: readonly unknown[] = [renewOperator, getClusterCa];
    for (const service of [CuratorContract, OperatorApi])
      for (const method of service.methods)
        if (!allowed.includes(method)) await expect(enter(method)).rejects.toEqual(coded('curator-denied'));
    await cluster.forget(viewer);
    await expect(enter(OperatorApi.method.renewOperator)).rejects.toEqual(coded('curator-not-member'));
  });

  describe('an attacker who writes to etcd, without an owner key', () => {
    type Harness = Awaited<ReturnType<typeof createCurators>>;
    const { listNodes, getInitResult } = CuratorContract.method;
    const read = ({ curator }: Harness, peer: TestPeer) =>
      curator.listNodes(create(listNodes.input), as(peer));
    const forge = async ({ etcd }: Harness, peer: TestPeer, over: Partial<OperatorRecord>) => {
      if (peer.identity.kind !== 'operator') throw new TypeError('no operator');
      const key = records.operator.key(peer.identity.fingerprint);
      const entry = await etcd.get(key, { signal });
      const before = entry && records.operator.decode(key, entry.value);
      const { fingerprint } = peer.identity;
      const record = { version: 1 as const, name: 'eve', role: 'viewer' as const, createdMs: 1, ...before };
      etcd.commitNow({
        when: [],
        then: [put(key, records.operator.encode({ ...record, fingerprint, ...over }))],
      });
    };
    /** An operator record and a certificate that no owner has asked for. */
    const createUnsigned = async ({ clock }: Harness) =>
      (await TestCluster.create(new MemoryEtcd(), () => clock.nowMs())).addOperator('eve', 'owner');

    test.each([
      { name: 'raises the role of an operator', over: { role: 'owner' as const } },
      { name: 'renames an operator', over: { name: 'owner' } },
    ])('an attacker who $name gives that operator no access', async ({ over }) => {
      const harness = await createCurators();
      const viewer = await harness.cluster.addOperator('v', 'viewer');
      await expect(read(harness, viewer)).resolves.toBeDefined();
      await forge(harness, viewer, over);
      await expect(read(harness, viewer)).rejects.toEqual(coded('curator-operator-unsigned'));
    });

    test('an attacker who adds a record for a key of their own gets no access, not even to the methods that need only a key', async () => {
      const harness = await createCurators();
      const eve = await createUnsigned(harness);
      await forge(harness, eve, { role: 'owner' });
      await expect(read(harness, eve)).rejects.toEqual(coded('curator-operator-unsigned'));
      const keyOnly = { ...eve, identity: { ...eve.identity, isKeyOnly: true } as never };
      await expect(harness.curator.getInitResult(create(getInitResult.input), as(keyOnly))).rejects.toEqual(
        coded('curator-operator-unsigned'),
      );
    });

    test('an attacker who replaces the signed list of operators with a list of their own only locks operators out', async () => {
      const harness = await createCurators();
      const viewer = await harness.cluster.addOperator('v', 'viewer');
      if (viewer.identity.kind !== 'operator') throw new TypeError('no operator');
      const forger = new FakeOwner({ clock: harness.clock });
      const { fingerprint } = viewer.identity;
      const operators = [{ name: 'v', fingerprint, role: 'owner' as const }];
      await forger.record(harness.etcd, forger.sign('operators', { operators }));
      await forge(harness, viewer, { role: 'owner' });
      await expect(read(harness, viewer)).rejects.toEqual(coded('curator-operator-unsigned'));
    });

    test('an attacker who restores an older signed list of operators gives no removed operator access again', async () => {
      const harness = await createCurators();
      const { etcd, cluster, signer } = harness;
      const gone = await cluster.addOperator('gone', 'operator');
      await expect(read(harness, gone)).resolves.toBeDefined();
      const key = documentKey('operators', '');
      const others = [{ name: 'x', fingerprint: signer.fingerprint, role: 'owner' as const }];
      const older = (await etcd.get(key, { signal }))?.value ?? new Uint8Array();
      await signer.record(etcd, signer.sign('operators', { operators: others }));
      await expect(read(harness, gone)).rejects.toEqual(coded('curator-operator-unsigned'));
      etcd.commitNow({ when: [], then: [put(key, older)] });
      await expect(read(harness, gone)).rejects.toEqual(coded('curator-operator-unsigned'));
    });
  });

  test('authorizeCaller() accepts signed operators after the signature expired, and after a recovery of the quorum', async () => {
    const { curator, cluster, clock } = await createCurators();
    const viewer = await cluster.addOperator('v', 'viewer');
    await clock.advance(3 * 24 * 60 * 60 * 1000);
    await cluster.setEpoch(2);
    await expect(
      curator.listNodes(create(CuratorContract.method.listNodes.input), as(viewer)),
    ).resolves.toBeDefined();
  });

  test('authorizeCaller() accepts the owner from the provisioning file before any owner has signed a list of operators', async () => {
    const { curator, cluster, etcd, signer } = await createCurators();
    const owner = await cluster.addOperator('o', 'owner', signer.keyPem);
    etcd.commitNow({ when: [], then: [{ kind: 'delete', key: documentKey('operators', '') }] });
    await expect(
      curator.listNodes(create(CuratorContract.method.listNodes.input), as(owner)),
    ).resolves.toBeDefined();
  });

  test('authorizeCaller() refuses every caller while etcd is unavailable', async () => {
    const { curator, etcd, owner } = await createCurators();
    etcd.setOutage(new EtcdError('etcd-unavailable', 'testing'));
    await expect(
      curator.checkHealth(create(CuratorContract.method.checkHealth.input), as(owner)),
    ).rejects.toEqual(coded('etcd-unavailable'));
  });

  test('every curator closes an open watch when the membership of its caller ends', async () => {
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

  test('when the membership of a node ends, the curator closes the node’s heartbeat stream without waiting for a message', async () => {
    const { curator, cluster } = await createCurators();
    const node = await cluster.addNode('n');
    const heartbeats = curator.heartbeat(one({}, true) as never, as(node))[Symbol.asyncIterator]();
    await heartbeats.next();
    const next = heartbeats.next();
    await settle();
    await cluster.forget(node);
    await expect(next).rejects.toEqual(coded('curator-not-member'));
  });
});
