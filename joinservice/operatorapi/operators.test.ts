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

/** Two curators of one cluster with an owner, and a signer that can be away. */
async function createDesk() {
  const curators = await TestCurators.create(2);
  const { etcd, clock, owner, signer } = curators;
  const authority = signer.authority(etcd);
  let isAway = false;
  const signOperator = async (): Promise<string> => {
    if (isAway) throw new Error('the signer does not answer');
    return 'certificate';
  };
  const at: readonly Handled[] = curators.all.map(({ mutations }) =>
    operatorHandlers({ etcd, mutations, clock, authority, signer: { signOperator } }),
  );
  const peer: Caller = { kind: 'operator', name: 'owner', role: 'owner', fingerprint: 'sha256:00' };
  const call = { peer, signal, address: '127.0.0.1' };
  const here = (index: number): Handled => at[index] as Handled;
  /** An owner signs the operators as they are to be. */
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
  /** Nothing for what is refused before anybody looks at documents. */
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

type Desk = Awaited<ReturnType<typeof createDesk>>;

describe('operators', () => {
  test('of two owners who are removed at the same time at two curators one stays', async () => {
    const desk = await createDesk();
    await using _ = desk.curators;
    await desk.put('bob', 'owner');
    const results = await Promise.allSettled([desk.remove('owner', 0), desk.remove('bob', 1)]);
    expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(results.find(({ status }) => status === 'rejected')).toMatchObject({
      reason: coded('operatorapi-last-owner'),
    });
    expect(await desk.list()).toHaveLength(1);
  });

  test('of two owners who become viewers at the same time one stays an owner', async () => {
    const desk = await createDesk();
    await using _ = desk.curators;
    const [ann, bob] = [generateKeyPem(), generateKeyPem()];
    await desk.put('ann', 'owner', { keyPem: ann });
    await desk.put('bob', 'owner', { keyPem: bob });
    await desk.remove('owner');
    const results = await Promise.allSettled([
      desk.put('ann', 'viewer', { keyPem: ann, at: 0 }),
      desk.put('bob', 'viewer', { keyPem: bob, at: 1 }),
    ]);
    expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect((await desk.list()).filter((each) => each.endsWith(' owner'))).toHaveLength(1);
  });

  test('a new key takes the place of the old one; the old one is a stranger at every curator at once', async () => {
    const desk = await createDesk();
    await using _ = desk.curators;
    const old = await desk.curators.cluster.addOperator('ann', 'viewer');
    const ask = (index: number) =>
      desk.curators
        .at(index)
        .listNodes(create(Curator.method.listNodes.input), { peer: old.identity, signal, address: '' });
    for (const index of [0, 1]) await expect(ask(index)).resolves.toBeDefined();
    await desk.put('ann', 'operator');
    for (const index of [0, 1]) await expect(ask(index)).rejects.toEqual(coded('curator-not-member'));
    expect(await desk.list()).toEqual(['ann operator', 'owner owner']);
  });

  test('a fresh certificate is for the own key, and the audit has who took it', async () => {
    const desk = await createDesk();
    await using _ = desk.curators;
    const keyPem = generateKeyPem();
    const fingerprint = fingerprintOfKey(pubKeyDerOf(keyPem));
    const ann: Caller = { kind: 'operator', name: 'ann', role: 'viewer', fingerprint };
    for (let times = 0; times < 3; times++)
      expect(await desk.renew(ann, keyPem)).toMatchObject({ certificatePem: 'certificate' });
    const others = generateKeyPem();
    await expect(desk.renew(ann, others)).rejects.toEqual(coded('curator-request-invalid'));
    const { entries } = await desk.curators.etcd.list('audit/', { signal }); // one for however many in a minute
    expect(entries.map(({ value }) => JSON.parse(Buffer.from(value).toString()) as unknown)).toMatchObject([
      { caller: 'operator:ann', method: 'RenewOperator', subject: 'ann', detail: { fingerprint } },
    ]);
  });

  test.each([
    { name: 'nothing that an owner signed', documents: () => [] },
    {
      name: 'another role than the signed one',
      documents: async ({ signed }: Desk, fingerprint: string) => [
        await signed('ann', { fingerprint, role: 'viewer' }),
      ],
    },
    {
      name: 'another key than the signed one',
      documents: async ({ signed }: Desk) => [
        await signed('ann', { fingerprint: `sha256:${'0'.repeat(64)}`, role: 'operator' }),
      ],
    },
  ])('nobody becomes an operator with $name', async ({ documents }) => {
    const desk = await createDesk();
    await using _ = desk.curators;
    const keyPem = generateKeyPem();
    const given = await documents(desk, fingerprintOfKey(pubKeyDerOf(keyPem)));
    await expect(desk.put('ann', 'operator', { keyPem, documents: given })).rejects.toEqual(
      coded('owner-document-required'),
    );
    expect(await desk.list()).toEqual(['owner owner']);
  });

  test('an owner is not removed while the signed set of owners still has the key', async () => {
    const desk = await createDesk();
    await using _ = desk.curators;
    const { etcd, signer } = desk.curators;
    await desk.put('desk', 'owner', { keyPem: signer.keyPem });
    const bob = generateEd25519Key();
    await desk.put('bob', 'owner', { keyPem: bob });
    const base64Of = (raw: Uint8Array = new Uint8Array()): string => Buffer.from(raw).toString('base64');
    const [own, his] = [base64Of(signer.pubKey), base64Of(ed25519PubKeyFrom(bob))];
    await signer.record(etcd, signer.sign('owners', { keys: [own, his] }));
    await expect(desk.remove('bob')).rejects.toEqual(coded('owner-document-required'));
    const without = signer.sign('owners', { keys: [own] });
    await desk.remove('bob', 0, [without, await desk.signed('bob')]);
    expect(await desk.list()).toEqual(['desk owner', 'owner owner']);
  });

  test('nobody is removed without a set of operators that an owner signed', async () => {
    const desk = await createDesk();
    await using _ = desk.curators;
    await desk.put('ann', 'viewer');
    await expect(desk.remove('ann', 0, [])).rejects.toEqual(coded('owner-document-required'));
    expect(await desk.list()).toEqual(['ann viewer', 'owner owner']);
  });

  test('a key has one name, whoever asks', async () => {
    const desk = await createDesk();
    await using _ = desk.curators;
    const keyPem = generateKeyPem();
    await desk.put('ann', 'viewer', { keyPem });
    await expect(desk.put('eve', 'owner', { keyPem })).rejects.toEqual(coded('curator-request-invalid'));
    expect(await desk.list()).toEqual(['ann viewer', 'owner owner']);
  });

  test.each([
    { name: 'an unknown role', as: 'ann', role: 'admin', code: 'curator-request-invalid' },
    { name: 'no role', as: 'ann', role: '', code: 'curator-request-invalid' },
    { name: 'a name that is a path', as: '../ann', role: 'viewer', code: 'curator-request-invalid' },
    { name: 'a name of 65 characters', as: 'a'.repeat(65), role: 'viewer', code: 'curator-request-invalid' },
  ])('refuses $name and leaves no record', async ({ as, role, code }) => {
    const desk = await createDesk();
    await using _ = desk.curators;
    await expect(desk.put(as, role)).rejects.toEqual(coded(code));
    expect(await desk.list()).toEqual(['owner owner']);
  });

  test('refuses a request that its key did not sign', async () => {
    const desk = await createDesk();
    await using _ = desk.curators;
    const request = await createCertificateRequest(generateKeyPem(), 'ann');
    request[request.length - 10] = (request[request.length - 10] ?? 0) ^ 1;
    await expect(desk.put('ann', 'viewer', { request })).rejects.toEqual(coded('pki-request-invalid'));
    expect(await desk.list()).toEqual(['owner owner']);
  });

  test('when the signer is away the same call again gives the certificate, and there is one decision', async () => {
    const desk = await createDesk();
    await using _ = desk.curators;
    const keyPem = generateKeyPem();
    const request = await createCertificateRequest(keyPem, 'ann');
    desk.setAway(true);
    const fingerprint = fingerprintOfKey(pubKeyDerOf(keyPem));
    const documents = [await desk.signed('ann', { fingerprint, role: 'viewer' })];
    const again = { request, key: 'the-same-key', documents };
    await expect(desk.put('ann', 'viewer', again)).rejects.toMatchObject({
      code: 'operatorapi-signing-failed',
      retryable: true,
    });
    desk.setAway(false);
    expect(await desk.put('ann', 'viewer', { ...again, at: 1 })).toMatchObject({
      certificatePem: 'certificate',
      operator: { fingerprint: fingerprintOfKey(pubKeyDerOf(keyPem)) },
    });
    expect((await desk.curators.etcd.list('audit/', { signal })).entries).toHaveLength(1);
  });
});
