import { describe, expect, test } from '@jest/globals';
import { create } from '@bufbuild/protobuf';
import {
  createCertificateRequest,
  fingerprintOfKey,
  generateKeyPem,
  pubKeyDerOf,
  verifyCertificateRequest,
} from '../../internal/pki/index.ts';
import { OPERATORS_PREFIX, records, type OperatorRecord } from '../../internal/records/index.ts';
import { ed25519PubKeyFrom, generateEd25519Key } from '../../internal/crypto/index.ts';
import type { Handlers } from '../../internal/rpc/index.ts';
import type { Caller } from '../curator/index.ts';
import { TestCurators } from '../curator/fake-curators.ts';
import { OperatorApi } from '../curatorproto/gen/operatorapi_pb.js';
import { Curator } from '../curatorproto/gen/curator_pb.js';
import { operatorHandlers } from './operator-handlers.ts';

const signal = new AbortController().signal;
const coded = (code: string): unknown => expect.objectContaining({ code });
const { putOperator, deleteOperator, listOperators, renewOperator } = OperatorApi.method;
type Handled = Pick<
  Handlers<typeof OperatorApi, Caller>,
  'listOperators' | 'putOperator' | 'renewOperator' | 'deleteOperator'
>;

/** Two curators of one cluster with an owner, and a signer that the test can make unavailable. */
async function createHarness() {
  const curators = await TestCurators.create(2);
  const { etcd, clock, owner, signer } = curators;
  const ownerDocs = signer.ownerDocs(etcd);
  let isAway = false;
  const signOperator = async (): Promise<string> => {
    if (isAway) throw new Error('the signer does not answer');
    return 'certificate';
  };
  const at: readonly Handled[] = curators.all.map(({ mutations }) =>
    operatorHandlers({ etcd, mutations, clock, ownerDocs, signer: { signOperator } }),
  );
  const peer: Caller = { kind: 'operator', name: 'owner', role: 'owner', fingerprint: 'sha256:00' };
  const call = { peer, signal, address: '127.0.0.1' };
  const here = (index: number): Handled => at[index] as Handled;
  /** An owner signs the complete list of operators as it will be after the change. */
  const signed = async (name: string, next?: Pick<OperatorRecord, 'fingerprint' | 'role'>) => {
    const { entries } = await etcd.list(OPERATORS_PREFIX, { signal });
    const before = entries.map((entry) => records.operator.decode(entry.key, entry.value));
    const others = before.filter((each) => each.name !== name);
    const operators = [...others, ...(next === undefined ? [] : [{ ...next, name }])].map((each) => ({
      name: each.name,
      fingerprint: each.fingerprint,
      role: each.role,
    }));
    return signer.sign('operators', { operators });
  };
  /**
   * A signed list of operators for a call; none if the arguments are invalid, because such a call is refused
   * before documents are checked.
   */
  const documentsFor = async (name: string, role: string, request: Uint8Array) => {
    try {
      const fingerprint = fingerprintOfKey(await verifyCertificateRequest(request));
      return [await signed(name, { fingerprint, role: role as OperatorRecord['role'] })];
    } catch {
      return [];
    }
  };
  return {
    curators,
    owner,
    setAway: (away: boolean) => (isAway = away),
    put: async (
      name: string,
      role: string,
      over: {
        keyPem?: ReturnType<typeof generateKeyPem>;
        request?: Uint8Array;
        at?: number;
        key?: string;
        documents?: Uint8Array[];
      } = {},
    ) => {
      const certificateRequest =
        over.request ?? (await createCertificateRequest(over.keyPem ?? generateKeyPem(), 'anything'));
      const mutation = { idempotencyKey: over.key ?? crypto.randomUUID() };
      const request = create(putOperator.input, {
        ...{ name, role, certificateRequest, mutation },
        documents: over.documents ?? (await documentsFor(name, role, certificateRequest)),
      });
      return here(over.at ?? 0).putOperator(request, call);
    },
    signed,
    remove: async (name: string, index = 0, documents?: Uint8Array[]) =>
      here(index).deleteOperator(
        create(deleteOperator.input, {
          name,
          mutation: { idempotencyKey: crypto.randomUUID() },
          documents: documents ?? [await signed(name)],
        }),
        call,
      ),
    renew: async (peer: Caller, keyPem: ReturnType<typeof generateKeyPem>) => {
      const certificateRequest = await createCertificateRequest(keyPem, 'x');
      return here(0).renewOperator(create(renewOperator.input, { certificateRequest }), { ...call, peer });
    },
    list: async () => {
      const { operators = [] } = await here(1).listOperators(create(listOperators.input), call);
      return operators.map(({ name, role }) => `${name} ${role}`).sort();
    },
  };
}

type Harness = Awaited<ReturnType<typeof createHarness>>;

describe('operators', () => {
  test('one of two owners stays if both are deleted at the same time at two curators', async () => {
    const harness = await createHarness();
    await using _ = harness.curators;
    await harness.put('bob', 'owner');
    const results = await Promise.allSettled([harness.remove('owner', 0), harness.remove('bob', 1)]);
    expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(results.find(({ status }) => status === 'rejected')).toMatchObject({
      reason: coded('operatorapi-last-owner'),
    });
    expect(await harness.list()).toHaveLength(1);
  });

  test('one of two owners stays an owner if both are made viewers at the same time', async () => {
    const harness = await createHarness();
    await using _ = harness.curators;
    const [ann, bob] = [generateKeyPem(), generateKeyPem()];
    await harness.put('ann', 'owner', { keyPem: ann });
    await harness.put('bob', 'owner', { keyPem: bob });
    await harness.remove('owner');
    const results = await Promise.allSettled([
      harness.put('ann', 'viewer', { keyPem: ann, at: 0 }),
      harness.put('bob', 'viewer', { keyPem: bob, at: 1 }),
    ]);
    expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect((await harness.list()).filter((each) => each.endsWith(' owner'))).toHaveLength(1);
  });

  test('an operator has one key: every curator refuses the old key as soon as it was replaced', async () => {
    const harness = await createHarness();
    await using _ = harness.curators;
    const old = await harness.curators.cluster.addOperator('ann', 'viewer');
    const ask = (index: number) =>
      harness.curators
        .at(index)
        .listNodes(create(Curator.method.listNodes.input), { peer: old.identity, signal, address: '' });
    for (const index of [0, 1]) await expect(ask(index)).resolves.toBeDefined();
    await harness.put('ann', 'operator');
    for (const index of [0, 1]) await expect(ask(index)).rejects.toEqual(coded('curator-not-member'));
    expect(await harness.list()).toEqual(['ann operator', 'owner owner']);
  });

  test('operators renew a certificate for their own key, and the audit log records it', async () => {
    const harness = await createHarness();
    await using _ = harness.curators;
    const keyPem = generateKeyPem();
    const fingerprint = fingerprintOfKey(pubKeyDerOf(keyPem));
    const ann: Caller = { kind: 'operator', name: 'ann', role: 'viewer', fingerprint };
    for (let times = 0; times < 3; times++)
      expect(await harness.renew(ann, keyPem)).toMatchObject({ certificatePem: 'certificate' });
    const others = generateKeyPem();
    await expect(harness.renew(ann, others)).rejects.toEqual(coded('curator-request-invalid'));
    // The audit log has one entry for all renewals in the same minute.
    const { entries } = await harness.curators.etcd.list('audit/', { signal });
    expect(entries.map(({ value }) => JSON.parse(Buffer.from(value).toString()) as unknown)).toMatchObject([
      { caller: 'operator:ann', method: 'RenewOperator', subject: 'ann', detail: { fingerprint } },
    ]);
  });

  test.each([
    { name: 'no signed document', documents: () => [] },
    {
      name: 'another role than the signed one',
      documents: async ({ signed }: Harness, fingerprint: string) => [
        await signed('ann', { fingerprint, role: 'viewer' }),
      ],
    },
    {
      name: 'another key than the signed one',
      documents: async ({ signed }: Harness) => [
        await signed('ann', { fingerprint: `sha256:${'0'.repeat(64)}`, role: 'operator' }),
      ],
    },
  ])('putOperator() refuses a new operator with $name', async ({ documents }) => {
    const harness = await createHarness();
    await using _ = harness.curators;
    const keyPem = generateKeyPem();
    const given = await documents(harness, fingerprintOfKey(pubKeyDerOf(keyPem)));
    await expect(harness.put('ann', 'operator', { keyPem, documents: given })).rejects.toEqual(
      coded('owner-document-required'),
    );
    expect(await harness.list()).toEqual(['owner owner']);
  });

  test('an owner is not deleted while the signed `owners` document still contains the owner’s key', async () => {
    const harness = await createHarness();
    await using _ = harness.curators;
    const { etcd, signer } = harness.curators;
    await harness.put('harness', 'owner', { keyPem: signer.keyPem });
    const bob = generateEd25519Key();
    await harness.put('bob', 'owner', { keyPem: bob });
    const base64Of = (raw: Uint8Array = new Uint8Array()): string => Buffer.from(raw).toString('base64');
    const [own, his] = [base64Of(signer.pubKey), base64Of(ed25519PubKeyFrom(bob))];
    await signer.record(etcd, signer.sign('owners', { keys: [own, his] }));
    await expect(harness.remove('bob')).rejects.toEqual(coded('owner-document-required'));
    const without = signer.sign('owners', { keys: [own] });
    await harness.remove('bob', 0, [without, await harness.signed('bob')]);
    expect(await harness.list()).toEqual(['harness owner', 'owner owner']);
  });

  test('deleteOperator() requires an `operators` document that an owner has signed', async () => {
    const harness = await createHarness();
    await using _ = harness.curators;
    await harness.put('ann', 'viewer');
    await expect(harness.remove('ann', 0, [])).rejects.toEqual(coded('owner-document-required'));
    expect(await harness.list()).toEqual(['ann viewer', 'owner owner']);
  });

  test('a key belongs to only one operator name', async () => {
    const harness = await createHarness();
    await using _ = harness.curators;
    const keyPem = generateKeyPem();
    await harness.put('ann', 'viewer', { keyPem });
    await expect(harness.put('eve', 'owner', { keyPem })).rejects.toEqual(coded('curator-request-invalid'));
    expect(await harness.list()).toEqual(['ann viewer', 'owner owner']);
  });

  test.each([
    { name: 'an unknown role', as: 'ann', role: 'admin', code: 'curator-request-invalid' },
    { name: 'no role', as: 'ann', role: '', code: 'curator-request-invalid' },
    { name: 'a name that is a path', as: '../ann', role: 'viewer', code: 'curator-request-invalid' },
    { name: 'a name of 65 characters', as: 'a'.repeat(65), role: 'viewer', code: 'curator-request-invalid' },
  ])('putOperator() refuses an operator with $name', async ({ as, role, code }) => {
    const harness = await createHarness();
    await using _ = harness.curators;
    await expect(harness.put(as, role)).rejects.toEqual(coded(code));
    expect(await harness.list()).toEqual(['owner owner']);
  });

  test('putOperator() refuses a certificate request that is not signed with the key of the operator', async () => {
    const harness = await createHarness();
    await using _ = harness.curators;
    const request = await createCertificateRequest(generateKeyPem(), 'ann');
    request[request.length - 10] = (request[request.length - 10] ?? 0) ^ 1;
    await expect(harness.put('ann', 'viewer', { request })).rejects.toEqual(coded('pki-request-invalid'));
    expect(await harness.list()).toEqual(['owner owner']);
  });

  test('after the signer was unavailable, a repeated call gets the certificate, with one audit entry', async () => {
    const harness = await createHarness();
    await using _ = harness.curators;
    const keyPem = generateKeyPem();
    const request = await createCertificateRequest(keyPem, 'ann');
    harness.setAway(true);
    const fingerprint = fingerprintOfKey(pubKeyDerOf(keyPem));
    const documents = [await harness.signed('ann', { fingerprint, role: 'viewer' })];
    const again = { request, key: 'the-same-key', documents };
    await expect(harness.put('ann', 'viewer', again)).rejects.toMatchObject({
      code: 'operatorapi-signing-failed',
      retryable: true,
    });
    harness.setAway(false);
    expect(await harness.put('ann', 'viewer', { ...again, at: 1 })).toMatchObject({
      certificatePem: 'certificate',
      operator: { fingerprint: fingerprintOfKey(pubKeyDerOf(keyPem)) },
    });
    expect((await harness.curators.etcd.list('audit/', { signal })).entries).toHaveLength(1);
  });
});
