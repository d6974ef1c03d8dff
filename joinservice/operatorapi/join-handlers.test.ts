import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import { put } from '../../internal/etcd/index.ts';
import { generateKeyPem, nodeIdOf, pubKeyDerOf } from '../../internal/pki/index.ts';
import { records, type JoinRecord } from '../../internal/records/index.ts';
import type { Caller } from '../curator/index.ts';
import { TestCurators } from '../curator/fake-curators.ts';
import { OperatorApi, JoinState } from '../curatorproto/gen/operatorapi_pb.js';
import { NodeRole } from '../curatorproto/gen/curator_pb.js';
import { joinDecisionHandlers } from './join-handlers.ts';

const signal = new AbortController().signal;
const coded = (code: string): unknown => expect.objectContaining({ code });
const { decideJoin, listJoins } = OperatorApi.method;

function joinOf(state: JoinRecord['state'], identity: string): JoinRecord {
  const pubKeyDer = pubKeyDerOf(generateKeyPem());
  return {
    version: 1,
    nodeId: nodeIdOf(pubKeyDer),
    pubKey: Buffer.from(pubKeyDer).toString('base64'),
    state,
    machine: {
      ...{ identity, proof: 'unproved', variant: 'tpm', profile: 'identity' },
      ...{ evidenceDigest: 'd'.repeat(64), policyVersion: 'p' },
    },
    claimed: { hostname: 'h', address: '192.0.2.1', name: '', roles: [], agentVersion: '', clockOffsetMs: 0 },
    code: '',
    message: '',
    firstSeenMs: 0,
    lastSeenMs: 0,
    attempts: 1,
  };
}

/** A cluster with three join requests: one is pending, one is refused, and one machine has joined. */
async function createHarness() {
  const curators = await TestCurators.create();
  const { etcd, clock, signer } = curators;
  const [curator] = curators.all;
  if (curator === undefined) throw new Error('there is one');
  const handlers = joinDecisionHandlers({
    ...{ etcd, clock, mutations: curator.mutations },
    ownerDocs: signer.ownerDocs(etcd),
  });
  const joins = {
    pending: joinOf('pending', 'tpm-ek:aabbccdd01020304'),
    other: joinOf('refused', 'tpm-ek:aabbccdd02030405'),
    joined: joinOf('joined', 'tpm-ek:eeff001122'),
  };
  for (const join of Object.values(joins))
    await etcd.commit(
      { when: [], then: [put(records.join.key(join.nodeId), records.join.encode(join))] },
      { signal },
    );
  const peer: Caller = { kind: 'operator', name: 'owner', role: 'owner', fingerprint: 'sha256:00' };
  const call = { peer, signal, address: '127.0.0.1' };
  return {
    joins,
    signer,
    etcd,
    put: (key: string, value: Uint8Array) => etcd.commitNow({ when: [], then: [put(key, value)] }),
    approve: (
      join: string,
      roles: NodeRole[] = [],
      documents: Uint8Array[] = [],
      taints: { key: string; value: string; effect: string }[] = [],
    ) =>
      handlers.decideJoin(
        create(decideJoin.input, {
          join,
          decision: { case: 'approve', value: { name: 'w1', roles, taints } },
          mutation: { idempotencyKey: crypto.randomUUID() },
          documents,
        }),
        call,
      ),
    list: async (...states: JoinState[]) => {
      const { joins: found = [] } = await handlers.listJoins(create(listJoins.input, { states }), call);
      return found.map(({ joinId }) => joinId);
    },
    [Symbol.asyncDispose]: () => curators[Symbol.asyncDispose](),
  };
}

test('decideJoin() approves a machine once however often it is called, and refuses an unknown one', async () => {
  await using harness = await createHarness();
  const { pending, joined } = harness.joins;
  expect(await harness.list(JoinState.PENDING)).toEqual([pending.nodeId]);
  for (let twice = 0; twice < 2; twice++)
    expect((await harness.approve(pending.nodeId)).join).toMatchObject({
      state: JoinState.APPROVED,
      name: 'w1',
    });
  expect(await harness.list(JoinState.PENDING)).toEqual([]);
  expect(await harness.list(JoinState.APPROVED)).toEqual([pending.nodeId]);
  await expect(harness.approve(`node-${'0'.repeat(32)}`)).rejects.toEqual(coded('operatorapi-join-unknown'));
  await expect(harness.approve('tpm-ek:aabbccdd')).rejects.toEqual(coded('operatorapi-join-ambiguous'));
  await expect(harness.approve(joined.nodeId)).rejects.toEqual(coded('operatorapi-already-joined'));
});

test('decideJoin() refuses a name that a machine gives itself, and says why', async () => {
  await using harness = await createHarness();
  const { pending } = harness.joins;
  await expect(harness.approve(pending.claimed.hostname)).rejects.toMatchObject({
    code: 'operatorapi-join-claimed',
    message: expect.stringContaining(pending.nodeId),
  });
  expect(await harness.list(JoinState.PENDING)).toEqual([pending.nodeId]);
});

describe('decideJoin() for a removed machine', () => {
  const removal = {
    ...{
      version: 1 as const,
      removal: 1,
      name: 'n4',
      nodeId: 'node-1',
      removedMs: 0,
      removedBy: 'operator:o',
    },
  };

  test('says when the machine was removed, by the fingerprint of its old key', async () => {
    await using harness = await createHarness();
    const identity = `machine-key:${'ab'.repeat(32)}`;
    harness.put(records.removed.key(identity), records.removed.encode({ ...removal, identity }));
    for (const given of [`sha256:${'ab'.repeat(32)}`, 'sha256:abababababab'])
      await expect(harness.approve(given)).rejects.toMatchObject({
        code: 'operatorapi-join-removed',
        message: expect.stringContaining('removed as node n4 at 1970-01-01T00:00:00Z by operator:o'),
      });
  });

  test('approves a machine that asks again only after its readmission', async () => {
    await using harness = await createHarness();
    const { nodeId, machine } = harness.joins.pending;
    const { identity } = machine;
    harness.put(records.removed.key(identity), records.removed.encode({ ...removal, identity }));
    await expect(harness.approve(nodeId)).rejects.toMatchObject({
      code: 'join-decommissioned',
      message: expect.stringContaining('it was removed as node n4'),
    });
    expect(await harness.list(JoinState.PENDING)).toEqual([nodeId]);
    await harness.signer.record(harness.etcd, harness.signer.sign('readmission', { identity, removal: 1 }));
    expect((await harness.approve(nodeId)).join).toMatchObject({ state: JoinState.APPROVED });
  });
});

test('decideJoin() stores the taints of an approval, and refuses those of Kubernetes', async () => {
  await using harness = await createHarness();
  const { pending } = harness.joins;
  const taint = { key: 'dedicated', value: 'gpu', effect: 'NoSchedule' };
  const reserved = { ...taint, key: 'node.kubernetes.io/not-ready' };
  await expect(harness.approve(pending.nodeId, [], [], [reserved])).rejects.toEqual(
    coded('curator-request-invalid'),
  );
  expect((await harness.approve(pending.nodeId, [], [], [taint])).join).toMatchObject({ taints: [taint] });
});

describe('decideJoin() for a control plane', () => {
  const ROLES = [NodeRole.CONSENSUS_MEMBER, NodeRole.KUBERNETES_CONTROLLER];
  type Harness = Awaited<ReturnType<typeof createHarness>>;
  const placeOf = ({ nodeId, pubKey, machine }: JoinRecord) => ({
    nodeId,
    pubKeyDer: Buffer.from(pubKey, 'base64'),
    identity: machine.identity,
  });

  test('decideJoin() stores the grant of the owner with the decision', async () => {
    await using harness = await createHarness();
    const { pending } = harness.joins;
    const grant = harness.signer.grant(placeOf(pending));
    expect((await harness.approve(pending.nodeId, ROLES, [grant])).join).toMatchObject({ roles: ROLES });
    const stored = await harness.signer.ownerDocs(harness.etcd).newest('grant', pending.nodeId, { signal });
    expect(stored?.body).toMatchObject({ nodeId: pending.nodeId, identity: pending.machine.identity });
    // the grant is stored now, so no document is needed
    expect((await harness.approve(pending.nodeId, ROLES)).join).toMatchObject({ roles: ROLES });
  });

  test.each([
    { name: 'a missing grant', documents: () => [] },
    {
      name: 'a grant for another machine',
      documents: ({ signer, joins }: Harness) => [
        signer.grant({ ...placeOf(joins.pending), identity: `tpm-ek:${'f'.repeat(64)}` }),
      ],
    },
    {
      name: 'a grant for another node',
      documents: ({ signer, joins }: Harness) => [signer.grant(placeOf(joins.other))],
    },
    {
      name: 'a grant for another key of that node',
      documents: ({ signer, joins }: Harness) => [
        signer.grant({ ...placeOf(joins.pending), pubKeyDer: pubKeyDerOf(generateKeyPem()) }),
      ],
    },
    {
      name: 'a grant of fewer roles',
      documents: ({ signer, joins }: Harness) => [signer.grant(placeOf(joins.pending), ['ConsensusMember'])],
    },
  ])('refuses $name and changes nothing', async ({ documents }) => {
    await using harness = await createHarness();
    const { nodeId } = harness.joins.pending;
    await expect(harness.approve(nodeId, ROLES, documents(harness))).rejects.toEqual(
      coded('owner-document-required'),
    );
    expect(await harness.list(JoinState.PENDING)).toEqual([nodeId]);
    expect((await harness.etcd.list('documents/grant/', { signal })).entries).toEqual([]);
  });
});
