import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import {
  ed25519PubKeyFrom,
  generateEd25519Key,
  ownershipStatement,
  signEd25519,
} from '../../internal/crypto/index.ts';
import {
  createCaCertPem,
  createCertificateRequest,
  fingerprintOfKey,
  generateKeyPem,
  pubKeyDerOf,
} from '../../internal/pki/index.ts';
import { parseDocument } from '../../internal/ownerdocument/index.ts';
import { OPERATORS_PREFIX, records, type OperatorRecord } from '../../internal/records/index.ts';
import { readCluster, type Caller } from '../curator/index.ts';
import { TestCurators } from '../curator/fake-curators.ts';
import { OperatorApi } from '../curatorproto/gen/operatorapi_pb.js';
import { operatorHandlers } from './operator-handlers.ts';
import { ownershipHandlers } from './ownership-handlers.ts';

const signal = new AbortController().signal;
const coded = (code: string): unknown => expect.objectContaining({ code });
const mutation = () => ({ idempotencyKey: crypto.randomUUID() });
const { deleteOperator, getClusterCa, getOwnership, putOperator, putOwnership } = OperatorApi.method;

/** Creates a curator and two more owners who may sign the ownership. */
async function createHarness() {
  const curators = await TestCurators.create();
  const { etcd, clock, signer: harness } = curators;
  const [curator] = curators.all;
  if (curator === undefined) throw new TypeError('no curator');
  const ownerDocs = harness.ownerDocs(etcd);
  const parts = { etcd, clock, ownerDocs, mutations: curator.mutations };
  const signer = { signOperator: () => Promise.resolve('certificate') };
  const operators = operatorHandlers({ ...parts, signer });
  const next = await createCaCertPem({ commonName: 'next', keyPem: generateKeyPem(), nowMs: clock.nowMs() });
  const ownership = ownershipHandlers({ ...parts, clusterCaPem: `${curators.cluster.trust.caPem}${next}` });
  const first: Caller = { kind: 'operator', name: 'owner', role: 'owner', fingerprint: 'sha256:00' };
  const as = (peer: Caller) => ({ peer, signal, address: '127.0.0.1' });
  const keys = { ann: generateEd25519Key(), bob: generateEd25519Key() };
  type Name = keyof typeof keys;
  const callerOf = (name: Name): Caller => {
    const fingerprint = fingerprintOfKey(pubKeyDerOf(keys[name]));
    return { kind: 'operator', name, role: 'owner', fingerprint };
  };
  const rawOf = (name: Name) => ed25519PubKeyFrom(keys[name]) ?? new Uint8Array();
  const signed = async (name: string, next?: Pick<OperatorRecord, 'name' | 'fingerprint' | 'role'>) => {
    const { entries } = await etcd.list(OPERATORS_PREFIX, { signal });
    const before = entries.map((entry) => records.operator.decode(entry.key, entry.value));
    const after = [...before.filter((each) => each.name !== name), ...(next === undefined ? [] : [next])];
    const operators = after.map((each) => ({
      name: each.name,
      fingerprint: each.fingerprint,
      role: each.role,
    }));
    return harness.sign('operators', { operators });
  };
  const add = async (name: Name, role: string, keyPem = keys[name]) => {
    const certificateRequest = await createCertificateRequest(keyPem, name);
    const next = {
      name,
      fingerprint: fingerprintOfKey(pubKeyDerOf(keyPem)),
      role: role as OperatorRecord['role'],
    };
    const documents = [await signed(name, next)];
    const request = create(putOperator.input, {
      name,
      role,
      certificateRequest,
      documents,
      mutation: mutation(),
    });
    return operators.putOperator(request, as(first));
  };
  await add('ann', 'owner');
  await add('bob', 'owner');
  return {
    curators,
    rawOf,
    add,
    next,
    caOnRecord: async () => (await readCluster(etcd, signal)).caPem,
    sign: async (name: Name, over: { by?: Name; key?: Uint8Array; epoch?: bigint; caPem?: string } = {}) => {
      const { clusterId, caPem } = await readCluster(etcd, signal);
      const clusterCaPem = over.caPem ?? caPem;
      const epoch = over.epoch ?? 1n;
      const statement = ownershipStatement({ clusterId, clusterCaPem, epoch });
      const signature = signEd25519(keys[over.by ?? name], statement);
      const ownerPublicKey = over.key ?? rawOf(name);
      const request = { ownerPublicKey, epoch, signature, mutation: mutation() };
      return ownership.putOwnership(create(putOwnership.input, request), as(callerOf(name)));
    },
    clusterCa: async () => ownership.getClusterCa(create(getClusterCa.input), as(first)),
    signer: async () => (await ownership.getOwnership(create(getOwnership.input), as(first))).ownerPublicKey,
    remove: async (name: Name) =>
      operators.deleteOperator(
        create(deleteOperator.input, { name, documents: [await signed(name)], mutation: mutation() }),
        as(first),
      ),
  };
}

describe('the ownership of the cluster', () => {
  test('getOwnership() returns the owner who signed last, and nothing before the first signature', async () => {
    const harness = await createHarness();
    await using _ = harness.curators;
    expect(await harness.signer()).toBeUndefined();
    for (const name of ['ann', 'bob'] as const) {
      await harness.sign(name);
      expect(await harness.signer()).toEqual(harness.rawOf(name));
    }
  });

  test('deleteOperator() refuses to delete the owner who signed the ownership until another owner has signed', async () => {
    const harness = await createHarness();
    await using _ = harness.curators;
    await harness.sign('ann');
    await expect(harness.remove('ann')).rejects.toEqual(coded('operatorapi-ownership-signer'));
    await expect(harness.add('ann', 'viewer')).rejects.toEqual(coded('operatorapi-ownership-signer'));
    await expect(harness.add('ann', 'owner', generateEd25519Key())).rejects.toEqual(
      coded('operatorapi-ownership-signer'),
    );
    await expect(harness.add('ann', 'owner')).resolves.toBeDefined();
    await harness.sign('bob');
    await expect(harness.remove('ann')).resolves.toEqual({});
  });

  test('putOwnership() takes a signature over the CA that has replaced the one on record', async () => {
    const harness = await createHarness();
    await using _ = harness.curators;
    await harness.sign('ann', { caPem: harness.next });
    expect(await harness.signer()).toEqual(harness.rawOf('ann'));
    expect((await harness.caOnRecord()).trim()).toBe(harness.next.trim());
  });

  const otherCa = createCaCertPem({ commonName: 'x', keyPem: generateKeyPem(), nowMs: 1 });
  test('putOwnership() refuses a signature over a CA that this curator does not trust', async () => {
    const harness = await createHarness();
    await using _ = harness.curators;
    const signing = harness.sign('ann', { caPem: await otherCa });
    await expect(signing).rejects.toEqual(coded('curator-request-invalid'));
    expect(await harness.caOnRecord()).toBe(harness.curators.cluster.trust.caPem);
  });

  test('getClusterCa() returns the trusted CAs, and what an owner has signed about the newest keys', async () => {
    const harness = await createHarness();
    await using _ = harness.curators;
    expect(await harness.clusterCa()).toMatchObject({ ownerDocuments: [] });
    const { signer, etcd } = harness.curators;
    const body = { generation: 2, previous: {}, next: {} };
    await etcd.commit({ when: [], then: [signer.documentWrite('keys', body)] }, { signal });
    const { clusterCaPem, ownerDocuments = [] } = await harness.clusterCa();
    expect(clusterCaPem).toContain(harness.next.trim());
    expect(ownerDocuments.map((bytes) => parseDocument(bytes).kind)).toEqual(['keys']);
  });

  const refused = [
    { name: 'a key of another owner', key: true },
    { name: 'a signature by another owner', by: 'bob' as const },
    { name: 'a future epoch', epoch: 2n },
    { name: 'epoch zero', epoch: 0n },
    { name: 'a truncated key', half: true },
  ];
  test.each(refused)('putOwnership() refuses $name', async ({ by, epoch, key, half }) => {
    const harness = await createHarness();
    await using _ = harness.curators;
    const over = {
      ...(by && { by }),
      ...(epoch !== undefined && { epoch }),
      ...(key === true && { key: harness.rawOf('bob') }),
      ...(half === true && { key: harness.rawOf('ann').slice(16) }),
    };
    await expect(harness.sign('ann', over)).rejects.toEqual(coded('curator-request-invalid'));
    expect(await harness.signer()).toBeUndefined();
  });
});
