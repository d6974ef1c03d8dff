import { create, toBinary } from '@bufbuild/protobuf';
import { beforeEach, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { AuditLog } from '../../internal/auditlog/index.ts';
import { put } from '../../internal/etcd/index.ts';
import { createPairs, LATER_KEYS, publicKeysOf, signedKeysOf } from '../../internal/keyset/index.ts';
import { AUDIT_PREFIX, KEYS_KEY, records, type KeysRecord } from '../../internal/records/index.ts';
import { FakeClock, MemoryEtcd, TestCluster } from '../../internal/testing/index.ts';
import { Mutations, NodeStore, type Caller } from '../curator/index.ts';
import { GetKeysRequestSchema, RotateKeysRequestSchema } from '../curatorproto/gen/operatorapi_pb.js';
import { NodeStatusSchema } from '../curatorproto/gen/curator_pb.js';
import { FakeOwner } from '../ownerdocs/fake-owner.ts';
import { keysHandlers } from './keys-handlers.ts';

const { signal } = new AbortController();
const caller = { kind: 'operator', name: 'owner', role: 'owner' } as unknown as Caller;
const call = { peer: caller, signal, address: '192.0.2.1' };

let etcd: MemoryEtcd;
let clock: FakeClock;
let owner: FakeOwner;
let handlers: ReturnType<typeof keysHandlers>;
beforeEach(() => {
  etcd = new MemoryEtcd();
  clock = new FakeClock(1_000);
  const mutations = new Mutations({ etcd, clock, audit: new AuditLog({ etcd }) });
  owner = new FakeOwner({ clock });
  const ownerDocs = owner.ownerDocs(etcd);
  handlers = keysHandlers({ etcd, nodes: new NodeStore(etcd), mutations, ownerDocs, clock });
});

const rotate = (reason: string, replaces = 0, idempotencyKey: string = randomUUID()) =>
  handlers.rotateKeys(
    create(RotateKeysRequestSchema, { reason, replaces: BigInt(replaces), mutation: { idempotencyKey } }),
    call,
  );
/** The cluster has completed the key rotation. */
const finish = async (): Promise<void> => {
  const asked = await onRecord();
  if (asked === undefined) throw new TypeError('nothing was asked for');
  const done = records.keys.encode({ ...asked, phase: 'done', phaseSinceMs: 61_000 });
  await etcd.commit({ when: [], then: [put(KEYS_KEY, done)] }, { signal });
};
const shown = () => handlers.getKeys(create(GetKeysRequestSchema), call);
const onRecord = async (): Promise<KeysRecord | undefined> => {
  const entry = await etcd.get(KEYS_KEY, { signal });
  return entry && records.keys.decode(entry.key, entry.value);
};
const audits = async () => (await etcd.list(AUDIT_PREFIX, { signal })).entries.length;

test('rotateKeys() begins one rotation, and continues that rotation if the call is repeated', async () => {
  expect(await shown()).toEqual({ stage: { generation: 1n, phase: 'done' } });
  expect(await rotate('c3 was lost')).toEqual({ generation: 2n, isDone: false });
  const asked = await onRecord();
  expect(asked).toMatchObject({ generation: 2, phase: 'asked', startedBy: 'operator:owner' });
  expect(await rotate('again')).toEqual({ generation: 2n, isDone: false });
  expect(await onRecord()).toEqual(asked);
  expect(await audits()).toBe(2);
});

test('rotateKeys() refuses a call that is repeated after the rotation, and reports who rotated and when', async () => {
  const key = randomUUID();
  await rotate('c3 was lost', 0, key);
  await finish();
  const done = await onRecord();
  // The client repeats the call with the same idempotency key, as if it had not received the answer.
  expect(await rotate('c3 was lost', 0, key)).toEqual({ generation: 2n, isDone: true });
  await expect(rotate('c3 was lost')).rejects.toMatchObject({
    code: 'operatorapi-keys-already-rotated',
    message: expect.stringMatching(
      /operator:owner already rotated them, generation 2 since 1970-01-01T00:01:01\.000Z$/,
    ),
  });
  expect(await onRecord()).toEqual(done);
  expect(await audits()).toBe(1);
});

test('rotateKeys() begins another rotation only if the call names the current generation', async () => {
  expect(await rotate('', 1)).toEqual({ generation: 2n, isDone: false });
  await finish();
  expect(await rotate('', 1)).toEqual({ generation: 2n, isDone: true });
  expect(await rotate('once more', 2)).toEqual({ generation: 3n, isDone: false });
  expect(await rotate('once more', 2)).toEqual({ generation: 3n, isDone: false });
  expect(await onRecord()).toMatchObject({ generation: 3, phase: 'asked', reason: 'once more' });
  await finish();
  expect(await rotate('once more', 2)).toEqual({ generation: 3n, isDone: true });
  await expect(rotate('', 4)).rejects.toMatchObject({ code: 'curator-request-invalid' });
});

test('getKeys() lists the nodes that the rotation waits for, and since when', async () => {
  const cluster = await TestCluster.create(etcd, () => clock.nowMs());
  const say = async (name: string, generation: bigint, phase: string): Promise<void> => {
    const { identity } = await cluster.addNode(name, { roles: ['ConsensusMember', 'KubernetesController'] });
    if (identity.kind !== 'node') throw new TypeError('a node has no id');
    const said = toBinary(
      NodeStatusSchema,
      create(NodeStatusSchema, {
        keys: { generation, phase, knowsEncryption: name !== 'b', laterKeys: [...LATER_KEYS] },
      }),
    );
    const status = { version: 1 as const, status: Buffer.from(said).toString('base64'), updatedMs: 1 };
    const [key, sendHeartbeat] = [
      records.status.key(identity.nodeId),
      records.heartbeat.key(identity.nodeId),
    ];
    const writes = [
      put(key, records.status.encode(status)),
      put(sendHeartbeat, records.heartbeat.encode({ version: 1, sinceMs: 1 })),
    ];
    await etcd.commit({ when: [], then: writes }, { signal });
  };
  await rotate('');
  await say('a', 1n, 'done');
  await say('b', 1n, 'done');
  await say('c', 1n, 'a phase of tomorrow');
  expect(await shown()).toMatchObject({
    stage: { generation: 2n, phase: 'asked' },
    phaseSinceMs: 1_000n,
    startedBy: 'operator:owner',
    awaited: [
      { name: 'b', why: 'its agent is too old to replace the encryption key' },
      { name: 'c', why: 'its agent is too old to rotate keys' },
    ],
  });
});

test('getKeys() shows that new keys first wait for an owner, and then for the control plane that created them', async () => {
  const cluster = await TestCluster.create(etcd, () => clock.nowMs());
  const { identity } = await cluster.addNode('a', { roles: ['ConsensusMember', 'KubernetesController'] });
  if (identity.kind !== 'node') throw new TypeError('a node has no id');
  await rotate('');
  const [previous, next] = [await createPairs(1, 1), await createPairs(2, 1)];
  const keys = publicKeysOf({ generation: 2, phase: 'distribute', previous, next });
  const record = async (by: string): Promise<void> => {
    const asked = await onRecord();
    if (asked === undefined) throw new TypeError('nothing was asked for');
    const made = { by, previous: keys.previous, next: keys.next, pubKey: 'a2V5', signature: 'c2ln' };
    await etcd.commit(
      { when: [], then: [put(KEYS_KEY, records.keys.encode({ ...asked, made }))] },
      { signal },
    );
  };
  await record(identity.nodeId);
  const signed = signedKeysOf(keys);
  expect(await shown()).toMatchObject({
    stage: { phase: 'asked' },
    awaited: [{ name: 'an owner', why: 'must sign the new keys: `cluster keys rotate`' }],
    newKeys: {
      nodeId: identity.nodeId,
      publicKey: Buffer.from('key'),
      signature: Buffer.from('sig'),
      previousSha256: signed.previous,
      nextSha256: signed.next,
      isSigned: false,
    },
  });
  await owner.record(etcd, owner.sign('keys', { ...signed, generation: 3 }));
  expect((await shown()).newKeys).toMatchObject({ isSigned: false });
  await owner.record(etcd, owner.sign('keys', signed));
  expect(await shown()).toMatchObject({
    awaited: [{ name: 'a', why: 'has the new keys, but is not reachable' }],
    newKeys: { isSigned: true },
  });
  // No owner must sign keys if the control plane that created them was removed.
  await record('node-gone');
  expect((await shown()).newKeys).toBeUndefined();
});
