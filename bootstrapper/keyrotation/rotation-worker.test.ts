import { create, toBinary } from '@bufbuild/protobuf';
import { beforeEach, describe, expect, test } from '@jest/globals';
import { ChainVerifier } from '../../internal/audit/index.ts';
import { headFrom } from '../../internal/auditlog/index.ts';
import { untilAborted } from '../../internal/cleanup/index.ts';
import { put } from '../../internal/etcd/index.ts';
import { EventValue } from '../../internal/event/index.ts';
import {
  ed25519PubKeyFrom,
  ed25519SpkiFromRaw,
  generateEd25519Key,
  isSignedByEd25519Key,
} from '../../internal/crypto/index.ts';
import {
  CLUSTER_CA,
  createClusterCa,
  createEncryptionKey,
  createPairs,
  createServersCa,
  formatStage,
  LATER_KEYS,
  newKeysStatement,
  publicHalvesOf,
  publicPartsOf,
  SERVERS_CA,
  signedKeysOf,
  type KeySet,
  type KeyStage,
  type PublicKeys,
  type RotatingPair,
} from '../../internal/keyset/index.ts';
import { X509Certificate } from 'node:crypto';
import { createCaCertPem, generateKeyPem } from '../../internal/pki/index.ts';
import {
  AUDIT_HEAD_KEY,
  AUDIT_PREFIX,
  auditKey,
  KEYS_KEY,
  records,
  type KeysRecord,
} from '../../internal/records/index.ts';
import type { Runnable } from '../../internal/supervisor/index.ts';
import {
  FakeClock,
  MemoryEtcd,
  MemoryFiles,
  settle,
  superviseForTest,
  TestCluster,
  TestOwner,
} from '../../internal/testing/index.ts';
import { NodeStatusSchema } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { rotationWorker } from './rotation-worker.ts';
import { INITIAL_STAGE, KeyStore } from './key-store.ts';

const { signal } = new AbortController();
let etcd: MemoryEtcd;
let clock: FakeClock;
let cluster: TestCluster;
let owner: TestOwner;
const clusterKeys = new EventValue<string | undefined>();

beforeEach(async () => {
  etcd = new MemoryEtcd();
  clock = new FakeClock(1_000);
  cluster = await TestCluster.create(etcd, () => clock.nowMs());
  owner = new TestOwner({ clock });
  clusterKeys.set('');
});

const addControlPlane = async (name: string): Promise<string> => {
  const { identity } = await cluster.addNode(name, { roles: ['ConsensusMember', 'KubernetesController'] });
  return identity.kind === 'node' ? identity.nodeId : '';
};

const write = (key: string, value: Uint8Array) =>
  etcd.commit({ when: [], then: [put(key, value)] }, { signal });

async function say(nodeId: string, { generation, phase }: KeyStage): Promise<void> {
  const said = toBinary(
    NodeStatusSchema,
    create(NodeStatusSchema, {
      keys: { generation: BigInt(generation), phase, knowsEncryption: true, laterKeys: [...LATER_KEYS] },
    }),
  );
  const status = { version: 1 as const, status: Buffer.from(said).toString('base64'), updatedMs: 1 };
  await write(records.status.key(nodeId), records.status.encode(status));
}

async function ask(): Promise<void> {
  const record: KeysRecord = {
    version: 1,
    generation: 2,
    phase: 'asked',
    startedMs: 1,
    phaseSinceMs: 1,
    startedBy: 'operator:owner',
    reason: '',
  };
  await write(KEYS_KEY, records.keys.encode(record));
  clusterKeys.set('2/asked');
}

async function onRecord(): Promise<KeysRecord> {
  const entry = await etcd.get(KEYS_KEY, { signal });
  if (entry === undefined) throw new TypeError('no record');
  return records.keys.decode(entry.key, entry.value);
}

/** The audit entries, after their chain was verified up to its head. */
async function audited(): Promise<readonly object[]> {
  const { entries } = await etcd.list(AUDIT_PREFIX, { signal });
  const verifier = new ChainVerifier();
  const decisions = entries.map(({ value }) => {
    const { caller, method, subject, detail } = verifier.next(value);
    return { caller, method, subject, detail };
  });
  verifier.verifyHead(headFrom(await etcd.get(AUDIT_HEAD_KEY, { signal })));
  return decisions;
}

/** The node key of every control plane here. */
const keyPem = generateEd25519Key();
const identity = { keyPem, pubKeyDer: ed25519SpkiFromRaw(ed25519PubKeyFrom(keyPem) ?? new Uint8Array()) };

const firstKey = createEncryptionKey(1);
const firstServersKey = generateKeyPem();
const firstServersCa: RotatingPair = {
  public: await createCaCertPem({
    commonName: 'kubernetes',
    keyPem: firstServersKey,
    nowMs: 1_000,
    pathLength: 1,
  }),
  private: firstServersKey,
};

const firstClusterCa = await createClusterCa(1, 1_000);

/** The rotation worker of one control plane. */
function part(nodeId: string, files = new MemoryFiles()) {
  const store = new KeyStore(files, { rotation: '/k/r', newKeys: '/k/n', stage: '/k/s', lastKey: '/k/l' });
  const refreshed: string[] = [];
  const worker = rotationWorker({
    ...{ clusterKeys, clock, nodeId, store },
    etcd: () => etcd,
    readSharedKeys: async () => {
      const later = { 'kubernetes-ca': firstServersCa, 'cluster-ca': firstClusterCa };
      const [first, set] = [{ ...(await createPairs(1, 1)), ...later }, await store.loadSet()];
      if (set === undefined) return { ...INITIAL_STAGE, previous: first, next: first };
      return { ...set, previous: { ...first, ...set.previous }, next: { ...first, ...set.next } };
    },
    readFirstEncryption: () => Promise.resolve({ resources: ['secrets'], key: firstKey, older: [] }),
    identity,
    trust: () => ({
      ownerKeys: [owner.pubKey],
      clusterId: cluster.clusterId,
      epoch: 1,
      nowMs: clock.nowMs(),
    }),
    refreshSigner: async () => void refreshed.push((await store.loadSet())?.phase ?? 'none'),
  });
  return { files, store, refreshed, worker };
}

const pass = async (): Promise<void> => {
  await clock.advance(3_000);
  await settle();
};

/** Keys are created outside of the fake clock, so real time passes: a busy machine needs seconds. */
const LIMIT_MS = 20_000;

/** The new keys on record, once they wait for an owner. */
async function newKeys(generation = 2): Promise<PublicKeys & { readonly by: string }> {
  for (const endMs = performance.now() + LIMIT_MS; performance.now() < endMs;) {
    const { made, ...now } = await onRecord();
    if (now.generation === generation && made !== undefined)
      return { generation, by: made.by, previous: made.previous, next: made.next };
    await pass();
  }
  throw new TypeError('no new keys');
}

/** An owner signs the keys that wait. */
async function signKeys(keys: PublicKeys, by = owner): Promise<void> {
  const write = by.documentWrite('keys', signedKeysOf(keys), { serial: keys.generation });
  await etcd.commit({ when: [], then: [write] }, { signal });
}

/** Waits for the record to reach a phase. */
async function until(generation: number, phase: KeysRecord['phase']): Promise<void> {
  for (const endMs = performance.now() + LIMIT_MS; performance.now() < endMs;) {
    const now = await onRecord();
    if (now.generation === generation && now.phase === phase) return;
    await pass();
  }
}

test('when several control planes create keys at once, one set is recorded; each phase waits for all control planes', async () => {
  const [a, b] = [await addControlPlane('a'), await addControlPlane('b')];
  const parts = [part(a), part(b)];
  const [one, two] = parts;
  if (one === undefined || two === undefined) throw new TypeError('two parts');
  const both: Runnable = async (scope) => {
    scope.run('one', one.worker);
    scope.run('two', two.worker);
    scope.healthy();
    await untilAborted(scope.signal);
  };
  await using _life = superviseForTest(both, { clock });
  await pass();
  await ask();
  await pass();
  expect((await onRecord()).phase).toBe('asked'); // agents without a key stage cannot take part
  for (const id of [a, b]) await say(id, { generation: 1, phase: 'done' });
  const waiting = await newKeys();
  await pass();
  expect((await onRecord()).phase).toBe('asked'); // no owner has signed them
  await signKeys(waiting);
  await until(2, 'distribute');
  const { phase, made } = await onRecord();
  const maker = parts[made?.by === a ? 0 : 1];
  expect([phase, [a, b].includes(made?.by ?? '')]).toEqual(['distribute', true]);
  // The control plane that created the keys, and its signer, must have them before others fetch them.
  expect(maker?.refreshed).toEqual(['distribute']);
  expect((await maker?.store.loadSet())?.next['etcd-peers-ca'].public).toBe(made?.next['etcd-peers-ca']);
  const seen: string[] = [];
  for (let round = 0; round < 6; round++) {
    const { generation, phase: now } = await onRecord();
    if (now === 'asked') throw new TypeError('asked again');
    seen.push(formatStage({ generation, phase: now }));
    await say(a, { generation, phase: now });
    await pass();
    expect((await onRecord()).phase).toBe(now);
    await say(b, { generation, phase: now });
    await pass();
  }
  expect(seen).toEqual(['2/distribute', '2/trust', '2/issue', '2/refresh', '2/retire', '2/done']);
  // Both control planes see the end of the rotation, but only one writes an audit entry. Earlier phases have
  // none.
  const decided = await audited();
  const detail = { generation: 2, startedBy: 'operator:owner', startedMs: 1, madeBy: made?.by };
  expect(decided).toEqual([
    { caller: expect.stringMatching(/^node:/), method: 'FinishRotation', subject: 'keys', detail },
  ]);
});

test('the end of a rotation and its audit entry are recorded in one transaction', async () => {
  const a = await addControlPlane('a');
  await say(a, { generation: 2, phase: 'retire' });
  await ask();
  const publics = publicPartsOf(await createPairs(2, 1));
  const made = { by: a, previous: publics, next: publics };
  const retiring = records.keys.encode({ ...(await onRecord()), phase: 'retire', made });
  await write(KEYS_KEY, retiring);
  let transactions = 0;
  etcd.onCommit = ({ then }) => {
    const keys = then.map(({ key }) => key);
    if (!keys.includes(KEYS_KEY)) return;
    transactions++;
    expect(keys).toEqual([KEYS_KEY, auditKey(1), AUDIT_HEAD_KEY]);
  };
  await using _life = superviseForTest(part(a).worker, { clock });
  await until(2, 'done');
  expect(transactions).toBe(1);
});

test('the rotation restarts with other keys when the only node with the keys was removed', async () => {
  const a = await addControlPlane('a');
  await say(a, { generation: 1, phase: 'done' });
  const { worker, store } = part(a);
  await using _life = superviseForTest(worker, { clock });
  await ask();
  const publics = publicPartsOf(await createPairs(2, 1));
  const lost = { by: 'node-gone', previous: publics, next: publics };
  await write(KEYS_KEY, records.keys.encode({ ...(await onRecord()), phase: 'distribute', made: lost }));
  await signKeys(await newKeys(3));
  await until(3, 'distribute');
  expect(await onRecord()).toMatchObject({ generation: 3, phase: 'distribute', made: { by: a } });
  expect(await store.loadSet()).toMatchObject({ generation: 3 });
  const detail = { generation: 3, instead: 2, why: 'the node that created the keys was lost' };
  expect(await audited()).toEqual([
    { caller: `node:${a}`, method: 'RestartRotation', subject: 'keys', detail },
  ]);
});

describe('the new keys replace the encryption key', () => {
  const createdAfter = async (before?: Pick<KeySet, 'phase' | 'encryption'>) => {
    const a = await addControlPlane('a');
    await say(a, { generation: 1, phase: 'done' });
    const { worker, store } = part(a);
    const pairs = await createPairs(1, 1);
    if (before !== undefined) await store.saveSet({ generation: 2, previous: pairs, next: pairs, ...before });
    await using _life = superviseForTest(worker, { clock });
    await ask();
    await newKeys();
    return (await store.loadNewKeys())?.encryption;
  };
  const earlier = {
    resources: ['configmaps'] as const,
    previous: firstKey,
    next: createEncryptionKey(2),
    older: [],
  };

  test('that the cluster was created with', async () => {
    const made = await createdAfter();
    expect(made).toMatchObject({ resources: ['secrets'], previous: firstKey, older: [] });
    expect(made?.next.name).toMatch(/^g2-[0-9a-f]{12}$/);
  });

  test('of the cluster after a rotation by an earlier version', async () => {
    expect(await createdAfter({ phase: 'done' })).toMatchObject({ previous: firstKey });
  });

  test('of the rotation before', async () => {
    expect(await createdAfter({ phase: 'done', encryption: earlier })).toMatchObject({
      ...{ resources: ['configmaps'], previous: earlier.next, older: [] },
    });
  });

  test('of an unfinished rotation, whose previous key stays until no object is encrypted with it', async () => {
    expect(await createdAfter({ phase: 'refresh', encryption: earlier })).toMatchObject({
      ...{ previous: earlier.next, older: [firstKey] },
    });
  });
});

describe('the new keys replace the cluster CA', () => {
  const clusterCasAfter = async (before?: KeySet['next']) => {
    const a = await addControlPlane('a');
    await say(a, { generation: 1, phase: 'done' });
    const { worker, store } = part(a);
    if (before !== undefined)
      await store.saveSet({ generation: 2, phase: 'done', previous: before, next: before });
    await using _life = superviseForTest(worker, { clock });
    await ask();
    const { previous, next } = await newKeys();
    return [previous[CLUSTER_CA], next[CLUSTER_CA]];
  };

  test.each([
    { name: 'that the cluster was created with', hasRotated: false },
    { name: 'that a rotation by an earlier version has kept', hasRotated: true },
  ])('$name', async ({ hasRotated }) => {
    const [previous, next] = await clusterCasAfter(hasRotated ? await createPairs(2, 1) : undefined);
    expect(previous).toBe(firstClusterCa.public);
    expect(new X509Certificate(next ?? '').subject).toBe('CN=cluster CA 2');
  });

  test('of the rotation before', async () => {
    const used = await createClusterCa(2, 1_000);
    const [previous, next] = await clusterCasAfter({ ...(await createPairs(2, 1)), [CLUSTER_CA]: used });
    expect(previous).toBe(used.public);
    expect(next).not.toBe(used.public);
  });
});

describe('the new keys replace the CA of servers', () => {
  const createdAfter = async (before?: Partial<KeySet>) => {
    const a = await addControlPlane('a');
    await say(a, { generation: 1, phase: 'done' });
    const { worker, store } = part(a);
    const pairs = await createPairs(1, 1);
    if (before !== undefined)
      await store.saveSet({ generation: 2, phase: 'done', previous: pairs, next: pairs, ...before });
    await using _life = superviseForTest(worker, { clock });
    await ask();
    const { previous, next } = await newKeys();
    const made = await store.loadNewKeys();
    // The record contains the same texts as the saved keys, because an owner signs the record.
    expect([previous[SERVERS_CA], next[SERVERS_CA]]).toEqual([
      made?.previous[SERVERS_CA]?.public,
      made?.next[SERVERS_CA]?.public,
    ]);
    return [made?.previous[SERVERS_CA], made?.next[SERVERS_CA]];
  };

  test.each([
    { name: 'that the cluster was created with', before: undefined },
    { name: 'of the cluster after a rotation by an earlier version', before: {} },
  ])('$name', async ({ before }) => {
    const [previous, next] = await createdAfter(before);
    expect(previous).toEqual(firstServersCa);
    expect(next?.private.reveal()).not.toBe(firstServersCa.private.reveal());
  });

  test('of the rotation before, without its cross-certificate', async () => {
    const pairs = await createPairs(2, 1_000);
    const used = await createServersCa(2, 1_000, firstServersCa);
    const before = {
      previous: { ...pairs, [SERVERS_CA]: firstServersCa },
      next: { ...pairs, [SERVERS_CA]: used },
    };
    const [previous, next] = await createdAfter(before);
    expect(previous).toEqual({ public: used.public, private: used.private });
    expect(next?.cross).toBeDefined();
  });
});

describe('new keys that wait for an owner', () => {
  let a: string;
  beforeEach(async () => {
    a = await addControlPlane('a');
    await say(a, { generation: 1, phase: 'done' });
  });

  test('are on record with the signature of the node that created them, and in no file that tickets are made of', async () => {
    const { worker, store, refreshed } = part(a);
    await using _life = superviseForTest(worker, { clock });
    await ask();
    const keys = await newKeys();
    const { made } = await onRecord();
    expect(made?.pubKey).toBe(Buffer.from(identity.pubKeyDer).toString('base64'));
    const statement = newKeysStatement(cluster.clusterId, signedKeysOf(keys));
    expect(
      isSignedByEd25519Key(identity.pubKeyDer, statement, Buffer.from(made?.signature ?? '', 'base64')),
    ).toBe(true);
    expect([await store.loadSet(), refreshed]).toEqual([undefined, []]);
    const waiting = await store.loadNewKeys();
    expect(waiting && publicHalvesOf(waiting)).toEqual({ previous: keys.previous, next: keys.next });
  });

  test('are distributed after a restart of the agent, and then no longer wait', async () => {
    const { files } = part(a);
    {
      await using _life = superviseForTest(part(a, files).worker, { clock });
      await ask();
      await newKeys();
    }
    const { worker, store, refreshed } = part(a, files);
    await using _next = superviseForTest(worker, { clock });
    await signKeys(await newKeys());
    await until(2, 'distribute');
    expect([(await store.loadSet())?.generation, await store.loadNewKeys(), refreshed]).toEqual([
      2,
      undefined,
      ['distribute'],
    ]);
  });

  test('are not distributed if the signature is over other keys, or by a key of somebody who is no owner', async () => {
    const { worker, store } = part(a);
    await using _life = superviseForTest(worker, { clock });
    await ask();
    const keys = await newKeys();
    await signKeys({ ...keys, next: keys.previous });
    await pass();
    await signKeys(keys, new TestOwner({ clock }));
    await pass();
    expect([(await onRecord()).phase, await store.loadSet()]).toEqual(['asked', undefined]);
  });

  test('are replaced by the next generation if the node that created them has lost them', async () => {
    const { worker, files } = part(a);
    await using _life = superviseForTest(worker, { clock });
    await ask();
    await newKeys();
    await files.remove('/k/n');
    await newKeys(3);
    const detail = { generation: 3, instead: 2, why: 'the new keys were lost' };
    expect(await audited()).toEqual([
      { caller: `node:${a}`, method: 'RestartRotation', subject: 'keys', detail },
    ]);
  });
});
