import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import { ownershipStatement, signEd25519 } from '../../internal/crypto/index.ts';
import { put } from '../../internal/etcd/index.ts';
import type { DocumentBodies } from '../../internal/ownerdocument/index.ts';
import {
  createCertificateRequest,
  fingerprintOfKey,
  generateKeyPem,
  nodeIdOf,
  pubKeyDerOf,
  type MemberIdentity,
} from '../../internal/pki/index.ts';
import {
  CONFIGURATION_KEY,
  OPERATORS_PREFIX,
  records,
  type NodeRecord,
} from '../../internal/records/index.ts';
import type { Handlers } from '../../internal/rpc/index.ts';
import type { TestPeer } from '../../internal/testing/index.ts';
import { ACCESS_RULES } from '../curator/index.ts';
import { as, mutation, nodeIdOf as idOf, TestCurators } from '../curator/fake-curators.ts';
import { Curator, NodeRole } from '../curatorproto/gen/curator_pb.js';
import { OperatorApi } from '../curatorproto/gen/operatorapi_pb.js';
import { operatorApiHandlers } from '../operatorapi/index.ts';
import { FakeOwner } from '../ownerdocs/fake-owner.ts';

const OWN_PATH = 'joinservice/server/signed-rows.test.ts';
const signal = new AbortController().signal;
const coded = (code: string): unknown => expect.objectContaining({ code });
const { setNodeRoles, updateConfiguration, deleteNode } = Curator.method;
const { putOperator, deleteOperator, decideJoin, putOwnership, putDocuments } = OperatorApi.method;
const CONTROL = [NodeRole.CONSENSUS_MEMBER, NodeRole.KUBERNETES_CONTROLLER];
const EK = `tpm-ek:${'e'.repeat(64)}`;
const admission: NonNullable<NodeRecord['admission']> = {
  ...{ identity: EK, proof: 'pinned', variant: 'tpm', profile: 'identity', policyVersion: 'p' },
  ...{ evidenceDigest: 'd'.repeat(64), decidedBy: 'policy:v', timeMs: 1 },
};
const configurationWith = (...names: readonly string[]): string =>
  JSON.stringify({
    ...{ version: 1, name: 'test', attestation: { variants: ['machine-key'], firstContact: 'fingerprint' } },
    join: {
      policy: 'inventory',
      inventory: names.map((name) => ({ identity: EK, name, roles: ['worker'] })),
    },
  });
const NEW_CONFIGURATION = configurationWith();
const NEW_KEY = generateKeyPem();
const JOINING = pubKeyDerOf(generateKeyPem());

/** The curator's contracts with their real handlers and their real authorization. */
async function createHarness() {
  const curators = await TestCurators.create();
  const { etcd, clock, cluster, signer } = curators;
  const [curator] = curators.all;
  if (curator === undefined) throw new TypeError('no curator');
  const api = operatorApiHandlers({
    ...{ etcd, clock, mutations: curator.mutations, ownerDocs: signer.ownerDocs(etcd) },
    nodes: { list: () => Promise.reject(new Error('not asked')) },
    signer: {
      signOperator: () => Promise.resolve('certificate'),
      signKubeconfig: () => Promise.reject(new Error('not asked')),
    },
    clusterCaPem: '',
    manufacturers: undefined as never,
  });
  const configuration = {
    version: 1 as const,
    document: btoa(configurationWith('w')),
    updatedMs: 1,
    updatedBy: 'x',
  };
  etcd.commitNow({ when: [], then: [put(CONFIGURATION_KEY, records.configuration.encode(configuration))] });
  const baseRevision = (await etcd.get(CONFIGURATION_KEY, { signal }))?.modRevision ?? 0n;
  await recordJoin(curators);
  return {
    ...{ curators, signer, etcd, cluster, baseRevision },
    [Symbol.asyncDispose]: () => curators[Symbol.asyncDispose](),
    worker: await cluster.addNode('w', { admission }),
    gone: await cluster.addNode('g', { admission, state: 'DECOMMISSIONED' }),
    operator: await cluster.addOperator('ann', 'operator'),
    /** An owner on record, whose key has signed the documents of this cluster. */
    owner: await cluster.addOperator('own', 'owner', signer.keyPem),
    curator: curators.at(0),
    api: curator.authorize(OperatorApi, api).handlers as unknown as Handlers<
      typeof OperatorApi,
      MemberIdentity
    >,
  };
}

async function recordJoin({ etcd }: TestCurators): Promise<void> {
  const machine = { identity: EK, proof: 'unproved', variant: 'tpm', profile: 'identity' } as const;
  const join = {
    ...{ version: 1 as const, nodeId: nodeIdOf(JOINING), pubKey: Buffer.from(JOINING).toString('base64') },
    ...{ state: 'pending' as const, code: '', message: '', firstSeenMs: 0, lastSeenMs: 0, attempts: 1 },
    machine: { ...machine, evidenceDigest: 'd'.repeat(64), policyVersion: 'p' },
    claimed: { hostname: 'h', address: '192.0.2.1', name: '', roles: [], agentVersion: '', clockOffsetMs: 0 },
  };
  etcd.commitNow({ when: [], then: [put(records.join.key(join.nodeId), records.join.encode(join))] });
}

type Harness = Awaited<ReturnType<typeof createHarness>>;

/** A change that needs an owner's signature, for one row of the table of rights. */
interface Attempt {
  /** The documents that an owner signs for this change. */
  readonly sign: (owner: FakeOwner, harness: Harness) => Promise<Uint8Array[]> | Uint8Array[];
  readonly call: (harness: Harness, by: TestPeer, signed: readonly Uint8Array[]) => Promise<unknown>;
  /** The refusal without a signature. */
  readonly code: string;
  /** The refusal of a signature by another key; by default the refusal of an owner document. */
  readonly forged?: string;
}

/** All operators on record, without `gone`, and with `next`. */
async function operatorsAfter(
  { etcd }: Harness,
  {
    gone,
    next,
  }: { readonly gone?: string; readonly next?: DocumentBodies['operators']['operators'][number] },
): Promise<DocumentBodies['operators']> {
  const { entries } = await etcd.list(OPERATORS_PREFIX, { signal });
  const all = entries.map(({ key, value }) => records.operator.decode(key, value));
  const kept = all.filter(({ name }) => name !== gone);
  const signed = kept.map(({ name, fingerprint, role }) => ({ name, fingerprint, role }));
  return { operators: next === undefined ? signed : [...signed, next] };
}

const SET_ROLES: Attempt = {
  sign: (owner, { worker }) => [
    owner.grant({ nodeId: idOf(worker), pubKeyDer: worker.pubKeyDer, identity: EK }),
  ],
  call: ({ curator, worker }, by, documents) =>
    curator.setNodeRoles(
      create(setNodeRoles.input, {
        ...{ nodeId: idOf(worker), roles: CONTROL, documents: [...documents], mutation: mutation() },
      }),
      as(by),
    ),
  code: 'owner-document-required',
};
const UPDATE_CONFIGURATION: Attempt = {
  sign: (owner) => [owner.policy(NEW_CONFIGURATION)],
  call: ({ curator, baseRevision }, by, documents) =>
    curator.updateConfiguration(
      create(updateConfiguration.input, {
        ...{ document: Buffer.from(NEW_CONFIGURATION), baseRevision, mutation: mutation() },
        documents: [...documents],
      }),
      as(by),
    ),
  code: 'owner-document-required',
};
const PUT_OPERATOR: Attempt = {
  sign: async (owner, harness) => {
    const fingerprint = fingerprintOfKey(pubKeyDerOf(NEW_KEY));
    return [
      owner.sign(
        'operators',
        await operatorsAfter(harness, { next: { name: 'bob', fingerprint, role: 'owner' } }),
      ),
    ];
  },
  call: async ({ api }, by, documents) =>
    api.putOperator(
      create(putOperator.input, {
        ...{ name: 'bob', role: 'owner', mutation: mutation(), documents: [...documents] },
        certificateRequest: await createCertificateRequest(NEW_KEY, 'bob'),
      }),
      as(by),
    ),
  code: 'owner-document-required',
};

/** One change for each row of `ACCESS_RULES` that names this test. */
const ATTEMPTS: Readonly<Record<string, Attempt>> = {
  'Curator.SetNodeRoles': SET_ROLES,
  'Curator.DeleteNode': {
    sign: (owner) => [owner.policy(NEW_CONFIGURATION)],
    call: ({ curator, gone, baseRevision }, by, documents) =>
      curator.deleteNode(
        create(deleteNode.input, {
          ...{ nodeId: idOf(gone), baseRevision, mutation: mutation(), documents: [...documents] },
          configuration: Buffer.from(NEW_CONFIGURATION),
        }),
        as(by),
      ),
    code: 'owner-document-required',
  },
  'Curator.UpdateConfiguration': UPDATE_CONFIGURATION,
  'OperatorApi.DecideJoin': {
    sign: (owner) => [owner.grant({ nodeId: nodeIdOf(JOINING), pubKeyDer: JOINING, identity: EK })],
    call: ({ api }, by, documents) =>
      api.decideJoin(
        create(decideJoin.input, {
          ...{ join: nodeIdOf(JOINING), mutation: mutation(), documents: [...documents] },
          decision: { case: 'approve', value: { name: 'c', roles: CONTROL } },
        }),
        as(by),
      ),
    code: 'owner-document-required',
  },
  'OperatorApi.PutOperator': PUT_OPERATOR,
  'OperatorApi.PutOwnership': {
    sign: (owner, { cluster }) => {
      const { clusterId, trust } = cluster;
      return [
        signEd25519(owner.keyPem, ownershipStatement({ clusterId, clusterCaPem: trust.caPem, epoch: 1n })),
      ];
    },
    call: ({ api, signer }, by, [signature = new Uint8Array()]) =>
      api.putOwnership(
        create(putOwnership.input, {
          ...{ ownerPublicKey: signer.pubKey, epoch: 1n, signature, mutation: mutation() },
        }),
        as(by),
      ),
    code: 'curator-request-invalid',
    forged: 'curator-request-invalid',
  },
  'OperatorApi.PutDocuments': {
    sign: (owner) => [owner.sign('readmission', { identity: EK, removal: 1 })],
    call: ({ api }, by, documents) =>
      api.putDocuments(
        create(putDocuments.input, { documents: [...documents], mutation: mutation() }),
        as(by),
      ),
    code: 'curator-request-invalid',
  },
  'OperatorApi.DeleteOperator': {
    sign: async (owner, harness) => [owner.sign('operators', await operatorsAfter(harness, { gone: 'ann' }))],
    call: ({ api }, by, documents) =>
      api.deleteOperator(
        create(deleteOperator.input, { name: 'ann', mutation: mutation(), documents: [...documents] }),
        as(by),
      ),
    code: 'owner-document-required',
  },
};

const ROWS = Object.entries(ATTEMPTS).map(([name, attempt]) => ({ name, attempt }));

describe('the rows of the table of rights that need an owner’s signature', () => {
  test('each row that names this test has a change here', () => {
    const named = Object.entries(ACCESS_RULES).filter(([, { signed = [] }]) =>
      signed.some((each) => each.test === OWN_PATH),
    );
    expect(Object.keys(ATTEMPTS)).toEqual(named.map(([name]) => name));
  });

  /** Key and revision of every record, except the audit log and the stored results of calls. */
  const recordsOf = async ({ etcd }: Harness) => {
    const { entries } = await etcd.list('', { signal });
    const kept = entries.filter(({ key }) => !/^(audit|mutations|meta\/audit)/.test(key));
    return kept.map(({ key, modRevision }) => `${key} ${modRevision}`);
  };

  test.each(ROWS)(
    '$name is refused without a signature, also for an owner, and changes nothing',
    async ({ attempt }) => {
      await using harness = await createHarness();
      const before = await recordsOf(harness);
      await expect(attempt.call(harness, harness.owner, [])).rejects.toEqual(coded(attempt.code));
      expect(await recordsOf(harness)).toEqual(before);
    },
  );

  test.each(ROWS)('$name is refused with the signature of a key that is no owner’s', async ({ attempt }) => {
    await using harness = await createHarness();
    const before = await recordsOf(harness);
    const forger = new FakeOwner({ clock: harness.curators.clock });
    const signed = await attempt.sign(forger, harness);
    await expect(attempt.call(harness, harness.owner, signed)).rejects.toEqual(
      coded(attempt.forged ?? 'owner-document-signer-unknown'),
    );
    expect(await recordsOf(harness)).toEqual(before);
  });

  test.each(ROWS)('$name is accepted with the signature of an owner', async ({ attempt }) => {
    await using harness = await createHarness();
    const signed = await attempt.sign(harness.signer, harness);
    await expect(attempt.call(harness, harness.owner, signed)).resolves.toBeDefined();
  });

  const byOperators = ROWS.filter(({ name }) => ACCESS_RULES[name]?.lowestRole === 'operator');
  test.each(byOperators)(
    '$name by an operator needs the signature of an owner as well',
    async ({ attempt }) => {
      await using harness = await createHarness();
      await expect(attempt.call(harness, harness.operator, [])).rejects.toEqual(coded(attempt.code));
      const signed = await attempt.sign(harness.signer, harness);
      await expect(attempt.call(harness, harness.operator, signed)).resolves.toBeDefined();
    },
  );
});
