import { create, toBinary } from '@bufbuild/protobuf';
import { afterEach, describe, expect, test } from '@jest/globals';
import { put } from '../../../internal/etcd/index.ts';
import {
  CONFIGURATION_KEY,
  records,
  REMOVED_PREFIX,
  type NodeRecord,
} from '../../../internal/records/index.ts';
import type { TestPeer } from '../../../internal/testing/index.ts';
import { Curator as Contract, NodeRole, NodeStatusSchema } from '../../curatorproto/gen/curator_pb.js';
import { as, curatorsOfTests, mutation, nodeIdOf } from '../fake-curators.ts';

const signal = new AbortController().signal;
const coded = (code: string): unknown => expect.objectContaining({ code });
const createCurators = curatorsOfTests(afterEach);
const EK = `tpm-ek:${'e'.repeat(64)}`;
const admission: NonNullable<NodeRecord['admission']> = {
  identity: EK,
  proof: 'pinned',
  variant: 'tpm',
  profile: 'identity',
  policyVersion: 'p',
  evidenceDigest: 'd'.repeat(64),
  decidedBy: 'policy:v',
  timeMs: 1,
};
const CONTROL = [NodeRole.CONSENSUS_MEMBER, NodeRole.KUBERNETES_CONTROLLER];

const configurationWith = (...inventory: readonly { identity: string; name: string; roles: string[] }[]) => ({
  version: 1,
  name: 'test',
  attestation: { variants: ['machine-key'], firstContact: 'fingerprint' },
  join: { policy: 'inventory', inventory },
});
const bytesOf = (document: unknown) => new TextEncoder().encode(JSON.stringify(document));
const entry = (roles: string[], identity = EK) => ({ identity, name: 'w-1', roles });

/** A worker that is identified by its TPM, in a cluster whose configuration is `document`. */
async function createHarness(
  document: unknown = configurationWith(),
  state: 'UP' | 'DECOMMISSIONED' = 'UP',
  over: Pick<Partial<NodeRecord>, 'roles' | 'wasControlPlane'> = {},
) {
  const world = await createCurators();
  const { etcd, cluster, owner, curator } = world;
  const record = {
    version: 1 as const,
    document: btoa(JSON.stringify(document)),
    updatedMs: 1,
    updatedBy: 'x',
  };
  etcd.commitNow({ when: [], then: [put(CONFIGURATION_KEY, records.configuration.encode(record))] });
  const node = await cluster.addNode('w-1', { admission, state, ...over });
  const { setNodeRoles, deleteNode } = Contract.method;
  const nodeId = nodeIdOf(node);
  const configuration = async () => {
    const found = await etcd.get(CONFIGURATION_KEY, { signal });
    const { document: stored } = records.configuration.decode(
      CONFIGURATION_KEY,
      found?.value ?? new Uint8Array(),
    );
    return { revision: found?.modRevision ?? 0n, text: atob(stored) };
  };
  return {
    ...{ ...world, node, nodeId, configuration },
    promote: (documents: readonly Uint8Array[], by: TestPeer = owner) =>
      curator.setNodeRoles(
        create(setNodeRoles.input, {
          nodeId,
          roles: CONTROL,
          documents: [...documents],
          mutation: mutation(),
        }),
        as(by),
      ),
    /** The last report of the node. */
    reported: (holdsKeys: boolean) => {
      const message = create(NodeStatusSchema, { holdsKeys, keys: { generation: 2n } });
      const status = Buffer.from(toBinary(NodeStatusSchema, message)).toString('base64');
      const write = records.status.put(records.status.key(nodeId), { version: 1, status, updatedMs: 1 });
      etcd.commitNow({ when: [], then: [write] });
    },
    wasControlPlane: async () =>
      (await records.node.read(etcd, records.node.key(nodeId), signal)).record?.wasControlPlane,
    forget: async (
      given: { documents?: Uint8Array[]; configuration?: unknown; baseRevision?: bigint } = {},
    ) =>
      curator.deleteNode(
        create(deleteNode.input, {
          nodeId,
          documents: given.documents ?? [],
          configuration: given.configuration === undefined ? new Uint8Array() : bytesOf(given.configuration),
          baseRevision: given.baseRevision ?? (await configuration()).revision,
          mutation: mutation(),
        }),
        as(owner),
      ),
    removedKeys: async () =>
      (await etcd.list(REMOVED_PREFIX, { signal })).entries.map(({ key, value }) => {
        const { sharedKeys, keyGeneration } = records.removed.decode(key, value);
        return { sharedKeys, keyGeneration };
      }),
    removed: async () =>
      (await etcd.list(REMOVED_PREFIX, { signal })).entries.map(({ key, value }) => {
        const { identity, removal, removedBy } = records.removed.decode(key, value);
        return { identity, removal, removedBy };
      }),
  };
}

type Harness = Awaited<ReturnType<typeof createHarness>>;
const placeOf = ({ node, nodeId }: Harness) => ({ nodeId, pubKeyDer: node.pubKeyDer, identity: EK });

describe('setNodeRoles() to a control plane', () => {
  test('accepts the grant of an owner, and stores it for later calls', async () => {
    const harness = await createHarness();
    const { node } = await harness.promote([harness.signer.grant(placeOf(harness))]);
    expect(node).toMatchObject({ roles: CONTROL });
    const stored = await harness.signer.ownerDocs(harness.etcd).newest('grant', harness.nodeId, { signal });
    expect(stored?.body).toMatchObject({ nodeId: harness.nodeId, identity: EK });
    expect(await harness.wasControlPlane()).toBe(true);
    await harness.promote([]); // A call without the grant succeeds too, because the node already has these roles.
  });

  test('accepts an inventory that an owner signed', async () => {
    const document = configurationWith(entry(['control-plane']));
    const harness = await createHarness(document);
    await expect(harness.promote([])).rejects.toEqual(coded('owner-document-required'));
    await harness.signer.record(harness.etcd, harness.signer.policy(JSON.stringify(document)));
    expect((await harness.promote([])).node).toMatchObject({ roles: CONTROL });
  });

  test.each([
    { name: 'a call without a signed document', documents: () => [] },
    {
      name: 'a grant for another machine',
      documents: (harness: Harness) => [
        harness.signer.grant({ ...placeOf(harness), identity: `tpm-ek:${'f'.repeat(64)}` }),
      ],
    },
    {
      name: 'a grant of worker roles only',
      documents: (harness: Harness) => [harness.signer.grant(placeOf(harness), ['KubernetesWorker'])],
    },
  ])('refuses $name', async ({ documents }) => {
    const harness = await createHarness();
    await expect(harness.promote(documents(harness))).rejects.toEqual(coded('owner-document-required'));
  });

  test('refuses an expired grant', async () => {
    const harness = await createHarness();
    const operator = await harness.cluster.addOperator('ann', 'operator');
    const grant = harness.signer.grant(placeOf(harness), undefined, { issuedMs: 1, endsMs: 2 });
    await expect(harness.promote([grant], operator)).rejects.toEqual(coded('owner-document-expired'));
    await harness.signer.record(harness.etcd, grant);
    await expect(harness.promote([], operator)).rejects.toEqual(coded('owner-document-required'));
  });
});

describe('deleteNode()', () => {
  const keyOf = ({ node }: Harness) =>
    node.identity.kind === 'node' ? `machine-key:${node.identity.fingerprint.replace('sha256:', '')}` : '';

  test('records the removal of the machine by its TPM and by its key', async () => {
    const harness = await createHarness(configurationWith(), 'DECOMMISSIONED');
    await harness.forget();
    const by = { removal: 1, removedBy: 'operator:owner' };
    expect(await harness.removed()).toEqual([
      { identity: keyOf(harness), ...by },
      { identity: EK, ...by },
    ]);
  });

  test.each([
    { holdsKeys: false, sharedKeys: 'deleted' },
    { holdsKeys: true, sharedKeys: 'left' },
  ])('records that a control plane had shared keys, and that they are $sharedKeys', async (row) => {
    const { holdsKeys, sharedKeys } = row;
    const harness = await createHarness(configurationWith(), 'DECOMMISSIONED', { wasControlPlane: true });
    harness.reported(holdsKeys);
    await harness.forget();
    const wanted = { sharedKeys, keyGeneration: 2 };
    expect(await harness.removedKeys()).toEqual([wanted, wanted]);
  });

  test('records that a worker had no shared keys', async () => {
    const harness = await createHarness(configurationWith(), 'DECOMMISSIONED', { wasControlPlane: false });
    await harness.forget();
    const wanted = { sharedKeys: 'none', keyGeneration: undefined };
    expect(await harness.removedKeys()).toEqual([wanted, wanted]);
  });

  test('deletes the record of a kept worker, which could report removals otherwise', async () => {
    const harness = await createHarness(configurationWith(), 'DECOMMISSIONED');
    const key = records.keptWorker.key(harness.nodeId);
    const kept = { version: 1, merged: 0, isDone: false } as const;
    harness.etcd.commitNow({ when: [], then: [records.keptWorker.put(key, kept)] });
    await harness.forget();
    expect(await harness.etcd.get(key, { signal })).toBeUndefined();
  });

  test('refuses a member and records no removal', async () => {
    const harness = await createHarness();
    await expect(harness.forget()).rejects.toEqual(coded('curator-node-in-use'));
    expect(await harness.removed()).toEqual([]);
  });

  test('removes the inventory entry of the machine in the same transaction, and audits it', async () => {
    const other = entry(['worker'], `tpm-ek:${'f'.repeat(64)}`);
    const harness = await createHarness(
      configurationWith(entry(['worker']), { ...other, name: 'w-2' }),
      'DECOMMISSIONED',
    );
    const configuration = configurationWith({ ...other, name: 'w-2' });
    await harness.forget({
      configuration,
      documents: [harness.signer.policy(JSON.stringify(configuration))],
    });
    expect(JSON.parse((await harness.configuration()).text)).toEqual(configuration);
    expect(await harness.removed()).toHaveLength(2);
    const { entries } = await harness.etcd.list('audit/', { signal });
    expect(entries.map(({ key, value }) => records.audit.decode(key, value))).toMatchObject([
      { method: 'DeleteNode', detail: { inventory: ['w-1'], readmitted: false, documents: ['policy 1'] } },
    ]);
  });

  const without = configurationWith();
  const refusals = [
    {
      name: 'the inventory lists the machine and no new configuration is submitted',
      given: () => ({}),
      code: 'curator-inventory-names',
    },
    {
      name: 'no owner signed the configuration without the entry',
      given: () => ({ configuration: without }),
      code: 'owner-document-required',
    },
    {
      name: 'the new configuration still has the entry',
      given: ({ signer }: Harness) => {
        const configuration = configurationWith(entry(['control-plane']));
        return { configuration, documents: [signer.policy(JSON.stringify(configuration))] };
      },
      code: 'curator-request-invalid',
    },
    {
      name: 'another caller changed the configuration meanwhile',
      given: ({ signer }: Harness) => ({
        configuration: without,
        documents: [signer.policy(JSON.stringify(without))],
        baseRevision: 1n,
      }),
      code: 'curator-configuration-stale',
    },
    {
      name: 'the readmission of an owner is for another removal of the machine',
      given: ({ signer }: Harness) => ({
        documents: [signer.sign('readmission', { identity: EK, removal: 2 })],
      }),
      code: 'curator-inventory-names',
    },
  ];
  test.each(refusals)('deleteNode() changes nothing if $name', async ({ given, code }) => {
    const harness = await createHarness(configurationWith(entry(['worker'])), 'DECOMMISSIONED');
    const before = await harness.configuration();
    await expect(harness.forget(given(harness))).rejects.toEqual(coded(code));
    expect(await harness.configuration()).toEqual(before);
    expect(await harness.removed()).toEqual([]);
    expect((await harness.etcd.list(`nodes/${harness.nodeId}/`, { signal })).entries).toHaveLength(1);
  });

  test('keeps the inventory entry of a machine that an owner readmits with the same call', async () => {
    const harness = await createHarness(configurationWith(entry(['worker'])), 'DECOMMISSIONED');
    const before = await harness.configuration();
    await harness.forget({ documents: [harness.signer.sign('readmission', { identity: EK, removal: 1 })] });
    expect(await harness.configuration()).toEqual(before);
    expect(await harness.removed()).toHaveLength(2);
  });
});
