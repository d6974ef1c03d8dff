import { create } from '@bufbuild/protobuf';
import { describe, expect, jest, test } from '@jest/globals';
import { parseDocument } from '../../internal/ownerdocument/index.ts';
import { put } from '../../internal/etcd/index.ts';
import { documentKey, records } from '../../internal/records/index.ts';
import { FakeOwner } from '../ownerdocs/fake-owner.ts';
import type { Caller } from '../curator/index.ts';
import { TestCurators } from '../curator/fake-curators.ts';
import { OperatorApi, RemovedKeys } from '../curatorproto/gen/operatorapi_pb.js';
import { documentHandlers } from './document-handlers.ts';

const signal = new AbortController().signal;
const coded = (code: string): unknown => expect.objectContaining({ code });
const { listDocuments, putDocuments } = OperatorApi.method;
const POLICY = { configurationSha256: 'ab'.repeat(32) };

async function createHarness() {
  const curators = await TestCurators.create();
  const { etcd, clock, signer } = curators;
  const [curator] = curators.all;
  if (curator === undefined) throw new TypeError('no curator');
  const ownerDocs = signer.ownerDocs(etcd);
  const handlers = documentHandlers({ etcd, mutations: curator.mutations, ownerDocs });
  const peer: Caller = { kind: 'operator', name: 'owner', role: 'owner', fingerprint: 'sha256:00' };
  const operator: Caller = { ...peer, name: 'ann', role: 'operator' };
  const call = { peer, signal, address: '127.0.0.1' };
  const keyOf = (owner: FakeOwner): string => Buffer.from(owner.pubKey).toString('base64');
  const mutation = () => ({ idempotencyKey: crypto.randomUUID() });
  return {
    ...{ etcd, signer, ownerDocs, keyOf },
    /** A second owner, whose key no machine was provisioned with. */
    second: new FakeOwner({ clock }),
    put: (...documents: Uint8Array[]) =>
      handlers.putDocuments(create(putDocuments.input, { documents, mutation: mutation() }), call),
    putAsOperator: (...documents: Uint8Array[]) =>
      handlers.putDocuments(create(putDocuments.input, { documents, mutation: mutation() }), {
        ...call,
        peer: operator,
      }),
    list: async () => handlers.listDocuments(create(listDocuments.input), call),
    /** Kinds of the listed documents, without `operators`, which an owner had signed before the test. */
    kinds: async () => {
      const { documents = [] } = await handlers.listDocuments(create(listDocuments.input), call);
      const parsed = documents.map((each) => parseDocument(each)).filter(({ kind }) => kind !== 'operators');
      return parsed.map(({ kind, serial }) => `${kind} ${serial}`);
    },
    [Symbol.asyncDispose]: () => curators[Symbol.asyncDispose](),
  };
}

describe('owner documents', () => {
  test('listOwnerDocuments() returns documents by kind and subject, and all `owners` documents', async () => {
    await using harness = await createHarness();
    const { signer, keyOf } = harness;
    const owners = () => signer.sign('owners', { keys: [keyOf(signer)] });
    await harness.put(owners(), signer.sign('policy', POLICY));
    await harness.put(owners(), signer.sign('policy', POLICY));
    expect(await harness.kinds()).toEqual(['owners 1', 'owners 2', 'policy 2']);
    expect((await harness.list()).epoch).toBe(1n);
  });

  test('the same owner document is accepted again, and an older owner document is refused', async () => {
    await using harness = await createHarness();
    const [first, second] = [harness.signer.sign('policy', POLICY), harness.signer.sign('policy', POLICY)];
    await harness.put(second);
    await harness.put(second);
    await expect(harness.put(first)).rejects.toEqual(coded('owner-document-serial-old'));
    expect(await harness.kinds()).toEqual(['policy 2']);
  });

  test('of two owner documents with the same serial, the first one stays', async () => {
    await using harness = await createHarness();
    const first = harness.signer.sign('policy', POLICY, { serial: 5 });
    const second = harness.signer.sign('policy', { configurationSha256: 'cd'.repeat(32) }, { serial: 5 });
    await harness.put(first);
    await expect(harness.put(second)).rejects.toEqual(coded('owner-document-serial-conflict'));
    expect((await harness.ownerDocs.newest('policy', '', { signal }))?.body).toEqual(POLICY);
  });

  test('an operator who is not an owner may store only documents about one machine', async () => {
    await using harness = await createHarness();
    const { signer, putAsOperator, keyOf } = harness;
    const readmission = signer.sign('readmission', { identity: `tpm-ek:${'e'.repeat(64)}`, removal: 1 });
    for (const other of [
      signer.sign('policy', POLICY),
      signer.sign('owners', { keys: [keyOf(signer)] }),
      signer.sign('keys', { generation: 2, previous: {}, next: {} }),
    ])
      await expect(putAsOperator(readmission, other)).rejects.toEqual(coded('operatorapi-document-kind'));
    expect(await harness.kinds()).toEqual([]);
    await putAsOperator(readmission);
    expect(await harness.kinds()).toEqual(['readmission 1']);
  });

  test('either all owner documents of one call are stored or none', async () => {
    await using harness = await createHarness();
    const { signer, second } = harness;
    await expect(harness.put(signer.sign('policy', POLICY), second.sign('policy', POLICY))).rejects.toEqual(
      coded('owner-document-signer-unknown'),
    );
    expect(await harness.kinds()).toEqual([]);
    await expect(harness.put()).rejects.toEqual(coded('curator-request-invalid'));
  });

  test('documents of a second owner are valid after the first owner signed both owners, even within one call', async () => {
    await using harness = await createHarness();
    const { signer, second, keyOf } = harness;
    const both = { keys: [keyOf(signer), keyOf(second)] };
    await harness.put(signer.sign('owners', both), second.sign('policy', POLICY));
    expect((await harness.ownerDocs.newest('policy', '', { signal }))?.signer).toEqual(second.pubKey);
    // The second owner removes the first one, so documents that the first owner signed are no longer valid.
    await harness.put(second.sign('owners', { keys: [keyOf(second)] }, { serial: 2 }));
    await expect(harness.put(signer.sign('policy', POLICY, { serial: 9 }))).rejects.toEqual(
      coded('owner-document-signer-unknown'),
    );
  });

  test('documents of kind `owners` form a chain without a gap', async () => {
    await using harness = await createHarness();
    const owners = harness.signer.sign('owners', { keys: [harness.keyOf(harness.signer)] }, { serial: 2 });
    await expect(harness.put(owners)).rejects.toEqual(coded('owner-document-malformed'));
  });

  test('an older document that etcd returns after a newer one was accepted is refused', async () => {
    await using harness = await createHarness();
    const { signer, etcd, ownerDocs } = harness;
    const old = signer.sign('policy', POLICY);
    await harness.put(signer.sign('policy', { configurationSha256: 'cd'.repeat(32) }));
    await ownerDocs.newest('policy', '', { signal });
    await signer.record(etcd, old);
    await expect(ownerDocs.newest('policy', '', { signal })).rejects.toEqual(
      coded('owner-document-serial-old'),
    );
  });

  test('a removed owner stays removed if the newest `owners` document is deleted from etcd', async () => {
    await using harness = await createHarness();
    const { signer, second, etcd, ownerDocs, keyOf } = harness;
    await harness.put(signer.sign('owners', { keys: [keyOf(signer), keyOf(second)] }));
    await harness.put(signer.sign('owners', { keys: [keyOf(signer)] }));
    await expect(ownerDocs.trust(signal)).resolves.toMatchObject({ owners: [signer.pubKey] });
    etcd.commitNow({ when: [], then: [{ kind: 'delete', key: documentKey('owners', 2) }] });
    await expect(ownerDocs.trust(signal)).rejects.toEqual(coded('owner-document-serial-old'));
    await expect(harness.put(second.sign('policy', POLICY))).rejects.toEqual(
      coded('owner-document-serial-old'),
    );
  });

  test('a slow read that ends after a change is repeated, so that a removed owner does not become valid again', async () => {
    await using harness = await createHarness();
    const { signer, second, etcd, ownerDocs, keyOf } = harness;
    await harness.put(
      signer.sign('owners', { keys: [keyOf(signer), keyOf(second)] }),
      signer.sign('policy', POLICY),
    );
    await ownerDocs.newest('policy', '', { signal });
    const readNow = etcd.readTogether.bind(etcd);
    const release = Promise.withResolvers<void>();
    jest.spyOn(etcd, 'readTogether').mockImplementationOnce(async (...args) => {
      const before = await readNow(...args);
      await release.promise;
      return before;
    });
    const slow = ownerDocs.newest('policy', '', { signal });
    const next = { configurationSha256: 'cd'.repeat(32) };
    await harness.put(signer.sign('owners', { keys: [keyOf(signer)] }), signer.sign('policy', next));
    await ownerDocs.newest('policy', '', { signal });
    release.resolve();
    expect((await slow)?.body).toEqual(next);
    etcd.commitNow({ when: [], then: [{ kind: 'delete', key: documentKey('owners', 2) }] });
    await expect(ownerDocs.trust(signal)).rejects.toEqual(coded('owner-document-serial-old'));
  });

  test('documents of an epoch before a recovery, and malformed documents, are refused', async () => {
    await using harness = await createHarness();
    const { signer, etcd, ownerDocs } = harness;
    await harness.put(signer.sign('policy', POLICY));
    const record = { version: 1 as const, document: btoa('x'), recordedMs: 1, recordedBy: 'x' };
    const key = documentKey('grant', 'node-1');
    etcd.commitNow({ when: [], then: [put(key, records.document.encode(record))] });
    await expect(ownerDocs.newest('grant', 'node-1', { signal })).rejects.toEqual(
      coded('owner-document-malformed'),
    );
    await using curators = await TestCurators.create(1, etcd);
    await curators.cluster.setEpoch(2);
    await expect(ownerDocs.newest('policy', '', { signal })).rejects.toEqual(
      coded('owner-document-epoch-old'),
    );
  });

  test('owner documents are listed with the removed machines and whether an owner readmitted them', async () => {
    await using harness = await createHarness();
    const { etcd, signer } = harness;
    for (const [identity, removal] of [
      [`tpm-ek:${'a'.repeat(64)}`, 1],
      [`tpm-ek:${'b'.repeat(64)}`, 2],
    ] as const) {
      const removed = { version: 1 as const, identity, removal, nodeId: 'node-1', name: 'n' };
      const keys = removal === 1 ? {} : { sharedKeys: 'deleted' as const, keyGeneration: 3 };
      const value = records.removed.encode({ ...removed, ...keys, removedMs: 7, removedBy: 'operator:o' });
      etcd.commitNow({ when: [], then: [put(records.removed.key(identity), value)] });
      await harness.put(signer.sign('readmission', { identity, removal: 1 }));
    }
    expect((await harness.list()).removed).toMatchObject([
      {
        identity: `tpm-ek:${'a'.repeat(64)}`,
        ...{ removal: 1, removedMs: 7n, readmitted: true, sharedKeys: RemovedKeys.UNSPECIFIED },
      },
      {
        identity: `tpm-ek:${'b'.repeat(64)}`,
        ...{ removal: 2, readmitted: false, sharedKeys: RemovedKeys.DELETED, keyGeneration: 3n },
      },
    ]);
  });
});
