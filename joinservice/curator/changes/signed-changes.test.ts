import { create } from '@bufbuild/protobuf';
import { afterEach, describe, expect, test } from '@jest/globals';
import { put } from '../../../internal/etcd/index.ts';
import {
  CONFIGURATION_KEY,
  records,
  REMOVED_PREFIX,
  type NodeRecord,
} from '../../../internal/records/index.ts';
import type { TestPeer } from '../../../internal/testing/index.ts';
import { Curator as Contract, NodeRole } from '../../curatorproto/gen/curator_pb.js';
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

/** A worker on a TPM, in a cluster whose configuration is `document`. */
async function createDesk(document: unknown = configurationWith(), state: 'UP' | 'DECOMMISSIONED' = 'UP') {
  const world = await createCurators();
  const { etcd, cluster, owner, curator } = world;
  const record = {
    version: 1 as const,
    document: btoa(JSON.stringify(document)),
    updatedMs: 1,
    updatedBy: 'x',
  };
  etcd.commitNow({ when: [], then: [put(CONFIGURATION_KEY, records.configuration.encode(record))] });
  const node = await cluster.addNode('w-1', { admission, state });
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
    removed: async () =>
      (await etcd.list(REMOVED_PREFIX, { signal })).entries.map(({ key, value }) => {
        const { identity, removal, removedBy } = records.removed.decode(key, value);
        return { identity, removal, removedBy };
      }),
  };
}

type Desk = Awaited<ReturnType<typeof createDesk>>;
const placeOf = ({ node, nodeId }: Desk) => ({ nodeId, pubKeyDer: node.pubKeyDer, identity: EK });

describe('setNodeRoles() to a control plane', () => {
  test('is done with an owner’s grant, which is stored, and counts the next time', async () => {
    const desk = await createDesk();
    const { node } = await desk.promote([desk.signer.grant(placeOf(desk))]);
    expect(node).toMatchObject({ roles: CONTROL });
    const stored = await desk.signer.authority(desk.etcd).newest('grant', desk.nodeId, { signal });
    expect(stored?.body).toMatchObject({ nodeId: desk.nodeId, identity: EK });
    await desk.promote([]); // it has them already
  });

  test('is done with an inventory that an owner signed', async () => {
    const document = configurationWith(entry(['control-plane']));
    const desk = await createDesk(document);
    await expect(desk.promote([])).rejects.toEqual(coded('owner-document-required'));
    await desk.signer.record(desk.etcd, desk.signer.policy(JSON.stringify(document)));
    expect((await desk.promote([])).node).toMatchObject({ roles: CONTROL });
  });

  test.each([
    { name: 'nothing signed', documents: () => [] },
    {
      name: 'a grant for another machine',
      documents: (desk: Desk) => [
        desk.signer.grant({ ...placeOf(desk), identity: `tpm-ek:${'f'.repeat(64)}` }),
      ],
    },
    {
      name: 'a grant of a worker',
      documents: (desk: Desk) => [desk.signer.grant(placeOf(desk), ['KubernetesWorker'])],
    },
  ])('is refused with $name', async ({ documents }) => {
    const desk = await createDesk();
    await expect(desk.promote(documents(desk))).rejects.toEqual(coded('owner-document-required'));
  });

  test('is refused to an operator whose grant has ended', async () => {
    const desk = await createDesk();
    const operator = await desk.cluster.addOperator('ann', 'operator');
    const grant = desk.signer.grant(placeOf(desk), undefined, { issuedMs: 1, endsMs: 2 });
    await expect(desk.promote([grant], operator)).rejects.toEqual(coded('owner-document-expired'));
    await desk.signer.record(desk.etcd, grant);
    await expect(desk.promote([], operator)).rejects.toEqual(coded('owner-document-required'));
  });
});

describe('deleteNode()', () => {
  const keyOf = ({ node }: Desk) =>
    node.identity.kind === 'node' ? `machine-key:${node.identity.fingerprint.replace('sha256:', '')}` : '';

  test('leaves a record of the machine, by its TPM and by its key', async () => {
    const desk = await createDesk(configurationWith(), 'DECOMMISSIONED');
    await desk.forget();
    const by = { removal: 1, removedBy: 'operator:owner' };
    expect(await desk.removed()).toEqual([
      { identity: keyOf(desk), ...by },
      { identity: EK, ...by },
    ]);
  });

  test('refuses a member, and leaves no record of it', async () => {
    const desk = await createDesk();
    await expect(desk.forget()).rejects.toEqual(coded('curator-node-in-use'));
    expect(await desk.removed()).toEqual([]);
  });

  test('takes the inventory entry of the machine out in the same transaction, and names it in the audit', async () => {
    const other = entry(['worker'], `tpm-ek:${'f'.repeat(64)}`);
    const desk = await createDesk(
      configurationWith(entry(['worker']), { ...other, name: 'w-2' }),
      'DECOMMISSIONED',
    );
    const configuration = configurationWith({ ...other, name: 'w-2' });
    await desk.forget({ configuration, documents: [desk.signer.policy(JSON.stringify(configuration))] });
    expect(JSON.parse((await desk.configuration()).text)).toEqual(configuration);
    expect(await desk.removed()).toHaveLength(2);
    const { entries } = await desk.etcd.list('audit/', { signal });
    expect(entries.map(({ key, value }) => records.audit.decode(key, value))).toMatchObject([
      { method: 'DeleteNode', detail: { inventory: ['w-1'], readmitted: false, documents: ['policy 1'] } },
    ]);
  });

  const without = configurationWith();
  const refusals = [
    { name: 'the entry stays', given: () => ({}), code: 'curator-inventory-names' },
    {
      name: 'no owner signed the configuration without it',
      given: () => ({ configuration: without }),
      code: 'owner-document-required',
    },
    {
      name: 'the new configuration still has it',
      given: ({ signer }: Desk) => {
        const configuration = configurationWith(entry(['control-plane']));
        return { configuration, documents: [signer.policy(JSON.stringify(configuration))] };
      },
      code: 'curator-request-invalid',
    },
    {
      name: 'the configuration was changed meanwhile',
      given: ({ signer }: Desk) => ({
        configuration: without,
        documents: [signer.policy(JSON.stringify(without))],
        baseRevision: 1n,
      }),
      code: 'curator-configuration-stale',
    },
    {
      name: 'an owner readmits another removal than this one',
      given: ({ signer }: Desk) => ({
        documents: [signer.sign('readmission', { identity: EK, removal: 2 })],
      }),
      code: 'curator-inventory-names',
    },
  ];
  test.each(refusals)('changes nothing where $name', async ({ given, code }) => {
    const desk = await createDesk(configurationWith(entry(['worker'])), 'DECOMMISSIONED');
    const before = await desk.configuration();
    await expect(desk.forget(given(desk))).rejects.toEqual(coded(code));
    expect(await desk.configuration()).toEqual(before);
    expect(await desk.removed()).toEqual([]);
    expect((await desk.etcd.list(`nodes/${desk.nodeId}/`, { signal })).entries).toHaveLength(1);
  });

  test('keeps the entry of a machine that an owner readmits with the same call', async () => {
    const desk = await createDesk(configurationWith(entry(['worker'])), 'DECOMMISSIONED');
    const before = await desk.configuration();
    await desk.forget({ documents: [desk.signer.sign('readmission', { identity: EK, removal: 1 })] });
    expect(await desk.configuration()).toEqual(before);
    expect(await desk.removed()).toHaveLength(2);
  });
});
