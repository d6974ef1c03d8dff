import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import { put } from '../../../internal/etcd/index.ts';
import { CONFIGURATION_KEY, records } from '../../../internal/records/index.ts';
import type { TestPeer } from '../../../internal/testing/index.ts';
import { FakeOwner } from '../../ownerdocs/fake-owner.ts';
import { sha256Of } from '../../ownerdocs/index.ts';
import { Curator as Contract } from '../../curatorproto/gen/curator_pb.js';
import { TestCurators } from '../fake-curators.ts';

const signal = new AbortController().signal;
const coded = (code: string): unknown => expect.objectContaining({ code });
const as = (peer: TestPeer) => ({ peer: peer.identity, signal, address: '127.0.0.1' });

const START = {
  version: 1,
  name: 'test',
  attestation: { variants: ['machine-key'], firstContact: 'fingerprint' },
  join: { policy: 'approve' },
};

async function createHarness() {
  const curators = await TestCurators.create(2);
  const { etcd, owner, signer } = curators;
  const record = { version: 1 as const, document: btoa(JSON.stringify(START)), updatedMs: 1, updatedBy: 'x' };
  etcd.commitNow({ when: [], then: [put(CONFIGURATION_KEY, records.configuration.encode(record))] });
  const get = async (at = 0) => {
    const got = await curators
      .at(at)
      .getConfiguration(create(Contract.method.getConfiguration.input), as(owner));
    return { text: Buffer.from(got.document ?? []).toString('utf8'), revision: got.revision ?? 0n };
  };
  interface Options {
    readonly key?: string;
    readonly at?: number;
    readonly documents?: Uint8Array[];
  }
  const update = (change: unknown, baseRevision: bigint, options: Options = {}) => {
    const document = new TextEncoder().encode(typeof change === 'string' ? change : JSON.stringify(change));
    return curators.at(options.at ?? 0).updateConfiguration(
      create(Contract.method.updateConfiguration.input, {
        document,
        baseRevision,
        mutation: { idempotencyKey: options.key ?? crypto.randomUUID() },
        documents: options.documents ?? [signer.policy(document)],
      }),
      as(owner),
    );
  };
  const audit = async () =>
    (await etcd.list('audit/', { signal })).entries.map(({ key, value }) => records.audit.decode(key, value));
  return { curators, get, update, audit };
}

describe('updateConfiguration()', () => {
  test('accepts a change based on the newest revision and refuses others, at every curator', async () => {
    const { curators, get, update } = await createHarness();
    await using _ = curators;
    const base = (await get()).revision;
    const results = await Promise.allSettled([
      update({ ...START, join: { policy: 'inventory' } }, base, { at: 0 }),
      update({ ...START, join: { policy: 'auto' } }, base, { at: 1 }),
    ]);
    expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(results.find(({ status }) => status === 'rejected')).toMatchObject({
      reason: coded('curator-configuration-stale'),
    });
    const { revision } = await get(1);
    const again = { ...START, certificates: { nodeMinutes: 60 } };
    const documents = [curators.signer.policy(JSON.stringify(again))];
    const first = await update(again, revision, { key: 'the-same-key', documents });
    expect((await get()).revision).toBe(first.revision);
    expect(await update(again, revision, { key: 'the-same-key', documents })).toEqual(first);
  });

  test('updateConfiguration() records who changed which settings, and records nothing if no setting changes', async () => {
    const { curators, get, update, audit } = await createHarness();
    await using _ = curators;
    const { revision } = await get();
    await update({ ...START, join: { policy: 'auto' } }, revision);
    const after = await get();
    await update({ ...START, join: { policy: 'auto', inventory: [] } }, after.revision);
    expect((await get()).revision).toBe(after.revision);
    expect(await audit()).toMatchObject([
      {
        method: 'UpdateConfiguration',
        caller: 'operator:owner',
        detail: { paths: ['join.policy'], changed: true },
      },
      { method: 'UpdateConfiguration', detail: { paths: [], changed: false } },
    ]);
  });

  test('stores the signature of the owner with the change', async () => {
    const { curators, get, update, audit } = await createHarness();
    await using _ = curators;
    const next = { ...START, join: { policy: 'auto' } };
    await update(next, (await get()).revision);
    const stored = await curators.signer.ownerDocs(curators.etcd).newest('policy', '', { signal });
    expect(stored?.body).toEqual({ configurationSha256: sha256Of(Buffer.from(JSON.stringify(next))) });
    expect(await audit()).toMatchObject([{ detail: { documents: ['policy 1'] } }]);
  });

  const next = { ...START, join: { policy: 'auto' } };
  test.each([
    { name: 'without a signature', code: 'owner-document-required', documents: () => [] },
    {
      name: 'with an owner signature over another configuration',
      code: 'owner-document-required',
      documents: ({ signer }: TestCurators) => [signer.policy({ ...next, name: 'x' })],
    },
    {
      name: 'with the signature of a key that is not an owner’s',
      code: 'owner-document-signer-unknown',
      documents: ({ clock }: TestCurators) => [new FakeOwner({ clock }).policy(JSON.stringify(next))],
    },
  ])('refuses a change $name and keeps the current configuration', async ({ code, documents }) => {
    const { curators, get, update, audit } = await createHarness();
    await using _ = curators;
    const before = await get();
    await expect(update(next, before.revision, { documents: documents(curators) })).rejects.toEqual(
      coded(code),
    );
    expect(await get()).toEqual(before);
    expect(await audit()).toEqual([]);
    expect((await curators.etcd.list('documents/policy/', { signal })).entries).toEqual([]);
  });

  test.each([
    { name: 'text that is not valid YAML', change: 'join: [', code: 'config-invalid' },
    { name: 'an unknown key', change: { ...START, jion: {} }, code: 'config-invalid' },
    {
      name: 'an invalid attestation policy',
      change: {
        ...START,
        attestation: { ...START.attestation, policy: { name: 'p', machines: 'everybody' } },
      },
      code: 'config-invalid',
    },
    {
      name: 'a configuration without attestation settings',
      change: { ...START, attestation: { variants: [] } },
      code: 'config-invalid',
    },
    { name: 'another cluster name', change: { ...START, name: 'other' }, code: 'config-immutable' },
    {
      name: 'another network range',
      change: { ...START, networking: { podSubnet: '10.1.0.0/16' } },
      code: 'config-immutable',
    },
    {
      name: 'another backend of the pod network',
      change: { ...START, networking: { backend: 'wireguard' } },
      code: 'config-immutable',
    },
    {
      name: 'another lock PCR',
      change: { ...START, attestation: { ...START.attestation, lockPcr: 14 } },
      code: 'config-immutable',
    },
  ])('refuses $name and keeps the current configuration', async ({ change, code }) => {
    const { curators, get, update, audit } = await createHarness();
    await using _ = curators;
    const before = await get();
    await expect(update(change, before.revision)).rejects.toEqual(coded(code));
    expect(await get()).toEqual(before);
    expect(await audit()).toEqual([]);
  });

  const encode = (text: string) => new TextEncoder().encode(text);
  test.each([
    {
      name: 'a stored document',
      text: 'broken: [',
      stored: records.configuration.encode({
        version: 1,
        document: btoa('broken: ['),
        updatedMs: 1,
        updatedBy: 'x',
      }),
    },
    { name: 'a stored record', text: '{"version":9}', stored: encode('{"version":9}') },
  ])(
    '$name that is invalid is returned unchanged, and a valid configuration can replace it',
    async (given) => {
      const { curators, get, update } = await createHarness();
      await using _ = curators;
      curators.etcd.commitNow({ when: [], then: [put(CONFIGURATION_KEY, given.stored)] });
      const { text, revision } = await get();
      expect(text).toBe(given.text);
      await update(START, revision);
      expect(JSON.parse((await get()).text)).toEqual(START);
    },
  );
});
