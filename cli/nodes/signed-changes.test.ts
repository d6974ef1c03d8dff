import { describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import {
  resolveOwners,
  parseDocument,
  signDocument,
  verifyDocument,
  type DocumentBodies,
  type DocumentKind,
} from '../../internal/ownerdocument/index.ts';
import { canonicalJson, clusterPartOf, parseClusterConfig } from '../../internal/config/index.ts';
import { ed25519PubKeyFrom, generateEd25519Key } from '../../internal/crypto/index.ts';
import { CodedError, defineErrors, fault } from '../../internal/errors/index.ts';
import { fingerprintOfKey, pubKeyDerOf } from '../../internal/pki/index.ts';
import { NodeRole } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { layoutOf, readOwnerKey } from '../workspace/index.ts';
import { readCaller } from '../cluster/index.ts';
import { runSign, runSignRequest } from '../sign/index.ts';
import {
  contextOf,
  createCuratorHarness,
  type FakeAdmissionCalls,
  type FakeCuratorCalls,
} from '../cluster/curator/fake-curator.ts';
import { reportedComponents } from './roles/fake-components.ts';
import {
  inventoryEntriesOf,
  deleteNodeRecords,
  requestDeletion,
  requireOwnerForInventory,
} from './removal/delete-node-records.ts';
import type { Role } from '../../internal/role/index.ts';
import { confirmRemoval, removedNodeId } from './removal/readmit.ts';
import { runApprove, runReadmit, runSetRole } from './index.ts';
import { runConfigApply } from '../configuration/index.ts';
import { runOperatorAccept, runOperatorAdd, runOperatorKey, runOperatorRemove } from '../operators/index.ts';
import { EK, NODE, NODE_FINGERPRINT } from '../sign/fake-signed-cluster.ts';
import { plainSecrets } from '../workspace/fake-passphrases.ts';

const drain = { force: false, deleteEmptyDirData: false, timeoutMs: 1 };
const CONTROL = [NodeRole.CONSENSUS_MEMBER, NodeRole.KUBERNETES_CONTROLLER];
const BASE = {
  version: 1,
  name: 'prod',
  attestation: { variants: ['machine-key'], firstContact: 'fingerprint' },
};
const LISTED = {
  ...BASE,
  join: { policy: 'inventory', inventory: [{ identity: EK, name: 'n2', roles: ['worker'], labels: {} }] },
};
/** SHA-256 of the configuration that the fake cluster returns. */
const SETTINGS = {
  ...{ version: 1, clusterName: 'prod', kubernetesVersion: 'v1.37.2', bundleManifest: 'MANIFEST' },
  ...{ podSubnet: '198.19.0.0/17', serviceSubnet: '198.19.128.0/20', apiServerSans: [] },
};
const LISTED_SHA256 = createHash('sha256').update(canonicalJson(LISTED)).digest('hex');

const testErrors = defineErrors({
  'owner-document-serial-old': fault.peer.refused('', ''),
});

/** A cluster that records the request of each call, and returns `documents` as the stored documents. */
async function createSigned(calls: { curator?: FakeCuratorCalls; admission?: FakeAdmissionCalls } = {}) {
  const sent: {
    readonly call: string;
    readonly documents: readonly Uint8Array[];
    readonly request: object;
  }[] = [];
  const onRecord: { documents: Uint8Array[]; removed: object[]; epoch: bigint; settings: Uint8Array } = {
    settings: new Uint8Array(),
    documents: [],
    removed: [],
    epoch: 1n,
  };
  const noting =
    <T>(call: string, answer: T) =>
    async (request: { readonly documents: readonly Uint8Array[] }): Promise<T> => {
      sent.push({ call, documents: request.documents, request });
      return answer;
    };
  const document = Buffer.from(canonicalJson(LISTED), 'utf8');
  const harness = await createCuratorHarness(
    {
      getNode: async () => ({ node: NODE }),
      listNodes: async () => ({ nodes: [NODE] }),
      getConfiguration: async () => ({ document, revision: 7n, updatedBy: 'node-1' }),
      setNodeRoles: noting('setNodeRoles', { node: NODE }),
      deleteNode: noting('deleteNode', {}),
      updateConfiguration: noting('updateConfiguration', { revision: 8n }),
      ...calls.curator,
    },
    {
      listDocuments: async () => onRecord,
      getKeys: async () => ({ stage: { generation: 1n, phase: 'done' } }),
      listJoins: async () => ({
        joins: [{ joinId: NODE.nodeId, fingerprint: NODE_FINGERPRINT, identity: EK }],
      }),
      decideJoin: noting('decideJoin', {}),
      deleteOperator: noting('deleteOperator', {}),
      putDocuments: noting('putDocuments', {}),
      ...calls.admission,
    },
  );
  const ownerKey = await readOwnerKey(plainSecrets(harness.files), layoutOf('/owner'));
  const ownKey = Buffer.from(ownerKey.pubKeyBase64, 'base64');
  const expected = { clusterId: harness.clusterId, epoch: 1, nowMs: Date.now(), floor: undefined };
  /**
   * Returns the first document of a kind in the recorded calls, after verifying that one of the owners has
   * signed it.
   */
  const signed = <K extends DocumentKind>(kind: K, owners: readonly Uint8Array[] = [ownKey]) => {
    const found = sent
      .flatMap(({ documents }) => documents)
      .find((each) => parseDocument(each).kind === kind);
    return found && verifyDocument(found, { ...expected, owners, kind });
  };
  const record = <K extends DocumentKind>(
    kind: K,
    body: DocumentBodies[K],
    serial = 1,
    keyPem = ownerKey.keyPem,
  ) => {
    const head = {
      kind,
      clusterId: harness.clusterId,
      epoch: 1,
      serial,
      issuedMs: 1,
      endsMs: Date.now() + 1e9,
    };
    onRecord.documents.push(signDocument({ ...head, body }, keyPem));
  };
  return { ...harness, sent, signed, record, onRecord, ownerKey, ownKey, expected };
}

/** A context of an operator without any owner's key. */
async function asOperator(harness: Awaited<ReturnType<typeof createSigned>>) {
  const ann = contextOf(harness.files, '/ann', undefined, harness.clock);
  await runOperatorKey(ann, 'ann', { request: undefined });
  await runOperatorAdd(harness.owner, 'ann', {
    role: 'operator',
    request: '/ann/ann.csr',
    out: '/ann/ann.grant',
  });
  await runOperatorAccept(ann, '/ann/ann.grant');
  return ann;
}

describe('documents that an owner signs', () => {
  test('node approve of a control plane signs a grant for its machine and key', async () => {
    await using harness = await createSigned();
    await runApprove(harness.owner, EK.slice(0, 20), {
      name: undefined,
      roles: ['control-plane'],
      labels: {},
    });
    expect(harness.signed('grant')?.body).toEqual({
      nodeId: NODE.nodeId,
      fingerprint: NODE_FINGERPRINT,
      identity: EK,
      roles: ['ConsensusMember', 'KubernetesController'],
      floors: { owners: 0, policy: 0, operators: 0 },
    });
  });

  test('node approve of a worker signs nothing', async () => {
    await using harness = await createSigned();
    await runApprove(harness.owner, NODE.nodeId, { name: undefined, roles: ['worker'], labels: {} });
    expect(harness.sent).toMatchObject([{ call: 'decideJoin', documents: [] }]);
  });

  test('node set-role --control-plane signs a grant that also names the lowest serial of each document that the node may accept', async () => {
    const getClusterInfo = async () => ({
      directory: [],
      etcd: { hasLeader: true, members: [{ isLearner: false }] },
    });
    const first = {
      ...NODE,
      nodeId: 'node-1',
      name: 'n1',
      roles: CONTROL,
      status: { controlPlane: reportedComponents() },
    };
    const listNodes = async () => ({ nodes: [first, NODE] });
    const refuse = {
      'test-seen': fault.operator.refused('', ''),
    } as const;
    const setNodeRoles = async (request: { readonly documents: readonly Uint8Array[] }) => {
      harness.sent.push({ call: 'setNodeRoles', documents: request.documents, request });
      throw new CodedError(defineErrors(refuse), 'test-seen', 'enough was seen');
    };
    await using harness = await createSigned({ curator: { getClusterInfo, setNodeRoles, listNodes } });
    harness.record('owners', { keys: [harness.ownerKey.pubKeyBase64] }, 1);
    harness.record('policy', { configurationSha256: '0'.repeat(64) }, 4);
    const promotion = runSetRole(harness.owner, 'n2', {
      roles: ['control-plane', 'worker'],
      dryRun: false,
      yes: true,
      drain,
    });
    await expect(promotion).rejects.toMatchObject({ code: 'test-seen' });
    const body = harness.signed('grant')?.body;
    expect(body).toMatchObject({ nodeId: NODE.nodeId, floors: { owners: 1, policy: 4, operators: 0 } });
  });

  test('config apply signs a policy document over the exact bytes that it sends', async () => {
    await using harness = await createSigned();
    await harness.files.writeAtomic(
      '/owner/cluster.yaml',
      JSON.stringify({ ...BASE, join: { policy: 'approve' } }),
    );
    harness.record('policy', { configurationSha256: '0'.repeat(64) }, 3);
    await runConfigApply(harness.owner, { file: undefined, dryRun: false, yes: true, onto: undefined });
    const [{ request } = { request: {} }] = harness.sent;
    const { document } = request as { readonly document: Uint8Array };
    const policy = harness.signed('policy');
    expect(policy?.serial).toBe(4);
    expect(policy?.body.configurationSha256).toBe(createHash('sha256').update(document).digest('hex'));
  });

  test('operator add signs the last signed list of operators plus the new operator, not the unsigned records of the cluster', async () => {
    const planted = { name: 'mallory', role: 'owner', fingerprint: `sha256:${'6'.repeat(64)}` };
    const putOperator = async (request: { readonly documents: readonly Uint8Array[] }) => {
      harness.sent.push({ call: 'putOperator', documents: request.documents, request });
      return { certificatePem: '', clusterCaPem: '' };
    };
    await using harness = await createSigned({
      admission: { putOperator, listOperators: async () => ({ operators: [planted] }) },
    });
    const first = {
      name: 'owner',
      role: 'owner' as const,
      fingerprint: fingerprintOfKey(pubKeyDerOf(harness.ownerKey.keyPem)),
    };
    harness.record('operators', { operators: [first] });
    const ann = contextOf(harness.files, '/ann', undefined, harness.clock);
    await runOperatorKey(ann, 'ann', { request: undefined });
    await runOperatorAdd(harness.owner, 'ann', { role: 'viewer', request: '/ann/ann.csr', out: undefined });
    expect(harness.signed('operators')?.body.operators).toMatchObject([
      first,
      { name: 'ann', role: 'viewer' },
    ]);
    expect(harness.signed('owners')).toBeUndefined();
  });

  test('operator remove of an owner signs the list of owners without that key, and signs again the documents of that owner', async () => {
    await using harness = await createSigned();
    const secondPem = generateEd25519Key();
    const second = Buffer.from(ed25519PubKeyFrom(secondPem) ?? []).toString('base64');
    const operator = (name: string, keyPem = harness.ownerKey.keyPem) => ({
      ...{ name, role: 'owner' as const, fingerprint: fingerprintOfKey(pubKeyDerOf(keyPem)) },
    });
    const policy = { configurationSha256: 'ab'.repeat(32) };
    harness.record('owners', { keys: [harness.ownerKey.pubKeyBase64, second] });
    harness.record('operators', { operators: [operator('owner'), operator('bob', secondPem)] });
    harness.record('policy', policy, 9, secondPem);
    await runOperatorRemove(harness.owner, 'bob', { dryRun: false, yes: true });
    const documents = harness.sent.flatMap(({ documents: all }) => all);
    const start = { keys: [harness.ownKey] as const, floor: undefined };
    const chain = [...harness.onRecord.documents, ...documents].filter(
      (each) => parseDocument(each).kind === 'owners',
    );
    expect(resolveOwners(start, chain, harness.expected).keys).toEqual([new Uint8Array(harness.ownKey)]);
    expect(harness.signed('operators')?.body.operators).toEqual([operator('owner')]);
    expect(harness.signed('policy')).toMatchObject({ serial: 10, body: policy });
  });

  test('node readmit signs a readmission for every removal of the machine', async () => {
    await using harness = await createSigned();
    const removed = {
      nodeId: 'node-9',
      name: 'w9',
      removedMs: 1n,
      removedBy: 'operator:o',
      readmitted: false,
    };
    const byKey = `machine-key:${'b'.repeat(64)}`;
    harness.onRecord.removed.push(
      { ...removed, identity: EK, removal: 3 },
      { ...removed, identity: byKey, removal: 1 },
      { ...removed, identity: `tpm-ek:${'f'.repeat(64)}`, nodeId: 'node-8', name: 'w8', removal: 1 },
    );
    await runReadmit(harness.owner, 'w9');
    const readmissions = harness.sent
      .flatMap(({ documents }) => documents.map((each) => parseDocument(each)))
      .filter(({ kind }) => kind === 'readmission');
    expect(readmissions.map(({ body }) => body)).toEqual([
      { identity: EK, removal: 3 },
      { identity: byKey, removal: 1 },
    ]);
    const again = { ...removed, nodeId: 'node-10', removal: 1, identity: `machine-key:${'c'.repeat(64)}` };
    harness.onRecord.removed.splice(
      0,
      2,
      { ...removed, identity: byKey, removal: 1, readmitted: true },
      again,
    );
    harness.sent.length = 0;
    await runReadmit(harness.owner, 'w9');
    expect(harness.signed('readmission')?.body).toEqual({ identity: again.identity, removal: 1 });
    await expect(runReadmit(harness.owner, 'w7')).rejects.toMatchObject({ code: 'nodes-removed-unknown' });
  });

  describe('a removal', () => {
    const body = { nodeId: NODE.nodeId, identity: EK, fingerprint: NODE_FINGERPRINT };
    const floors = { owners: 0, policy: 0, operators: 0 };
    const granted = { ...body, floors, roles: ['ConsensusMember', 'KubernetesController'] as Role[] };
    const removedBy = { nodeId: NODE.nodeId, name: 'n2', removedMs: 1n, removedBy: 'operator:o' };
    const removals = [EK, NODE_FINGERPRINT.replace('sha256', 'machine-key')].map((identity) => ({
      ...removedBy,
      identity,
      removal: 1,
      readmitted: true,
    }));

    test.each([
      { name: 'of a control plane whose grant is on record', node: { ...NODE, roles: [] }, isGranted: true },
      {
        name: 'of a control plane that the inventory lists',
        node: { ...NODE, roles: CONTROL },
        isGranted: false,
      },
    ])('$name withdraws its grant in the same call', async ({ node, isGranted }) => {
      await using harness = await createSigned();
      harness.record('policy', { configurationSha256: LISTED_SHA256 });
      if (isGranted) harness.record('grant', granted);
      for (const isReset of [false, true]) {
        harness.sent.length = 0;
        await deleteNodeRecords(harness.owner, node as never, { isReset });
        expect(harness.sent).toMatchObject([{ call: 'deleteNode' }]);
        expect(harness.signed('grant')).toMatchObject({
          serial: isGranted ? 2 : 1,
          body: { ...body, roles: ['KubernetesWorker'] },
        });
      }
    });

    test('of a worker signs no grant', async () => {
      await using harness = await createSigned();
      harness.record('policy', { configurationSha256: LISTED_SHA256 });
      await deleteNodeRecords(harness.owner, NODE as never, { isReset: false });
      expect(harness.signed('grant')).toBeUndefined();
    });

    test.each([
      { name: 'node readmit', run: runReadmit },
      {
        name: 'node remove again',
        run: async (context: Parameters<typeof runReadmit>[0], which: string) => {
          const nodeId = await removedNodeId(context, which);
          if (nodeId !== undefined) await confirmRemoval(context, nodeId);
        },
      },
    ])('of a control plane by an operator is confirmed once when an owner runs $name', async ({ run }) => {
      // Without a grant on record: the inventory listed the control plane, or an owner signed the grant whose key was removed.
      for (const [isGranted, recorded] of [
        [true, removals],
        [false, removals],
        [false, removals.filter(({ identity }) => identity !== EK)],
      ] as const) {
        await using harness = await createSigned();
        if (isGranted) harness.record('grant', granted);
        harness.onRecord.removed.push(...recorded);
        await run(harness.owner, 'n2');
        const [{ identity } = { identity: '' }] = recorded;
        const withdrawn = { ...body, identity, roles: ['KubernetesWorker'] as Role[] };
        const serial = isGranted ? 2 : 1;
        expect(harness.signed('grant')).toMatchObject({ serial, body: withdrawn });
        harness.record('grant', { ...withdrawn, floors }, serial);
        harness.sent.length = 0;
        await run(harness.owner, 'n2');
        expect(harness.sent).toEqual([]);
      }
    });
  });

  test('sign signs the current records after confirmation', async () => {
    const nodes = [{ ...NODE, roles: CONTROL }];
    await using harness = await createSigned({
      curator: { listNodes: async () => ({ nodes }) },
      admission: { listOperators: async () => ({ operators: [first] }) },
    });
    const first = {
      name: 'owner',
      role: 'owner',
      fingerprint: fingerprintOfKey(pubKeyDerOf(harness.ownerKey.keyPem)),
    };
    harness.onRecord.settings = Buffer.from(canonicalJson(SETTINGS), 'utf8');
    await expect(runSign(harness.owner, { yes: false })).rejects.toMatchObject({
      code: 'owner-document-required',
    });
    expect(harness.sent).toEqual([]);
    await runSign(harness.owner, { yes: true });
    const stored = Buffer.from(canonicalJson(LISTED), 'utf8');
    expect(harness.signed('policy')?.body.configurationSha256).toBe(
      createHash('sha256').update(stored).digest('hex'),
    );
    expect(harness.signed('settings')?.body.settingsSha256).toBe(
      createHash('sha256').update(harness.onRecord.settings).digest('hex'),
    );
    const said = harness.owner.host.records.map((each) => (each.kind === 'say' ? each.text : '')).join();
    expect(said).toContain(createHash('sha256').update('MANIFEST').digest('hex'));
    expect(harness.signed('operators')?.body.operators).toEqual([first]);
    expect(harness.signed('owners')?.body.keys).toEqual([harness.ownerKey.pubKeyBase64]);
    expect(harness.signed('grant')?.body).toMatchObject({ nodeId: NODE.nodeId, identity: EK });
  });
});

describe('an owner signs nothing that somebody else wrote to etcd', () => {
  const apply = (harness: Awaited<ReturnType<typeof createSigned>>, onto?: bigint) =>
    runConfigApply(harness.owner, { file: undefined, dryRun: false, yes: true, onto });
  /** A workspace that has applied `BASE` with the join policy `auto`, and then changes the lifetime of node certificates. */
  const createChanged = async () => {
    const harness = await createSigned();
    const { clusterId, files } = harness;
    const before = JSON.stringify({ ...BASE, join: { policy: 'auto' } });
    const document = clusterPartOf(parseClusterConfig(before, 'cluster.yaml'));
    const applied = { version: 1, clusterId, document };
    await files.writeAtomic('/owner/applied.json', JSON.stringify(applied));
    const certificates = { nodeMinutes: 120 };
    const mine = { ...BASE, join: { policy: 'auto' }, certificates };
    await files.writeAtomic('/owner/cluster.yaml', JSON.stringify(mine));
    return harness;
  };

  test('config apply refuses to keep changes of a configuration that no owner has signed', async () => {
    await using harness = await createChanged();
    harness.record('policy', { configurationSha256: '0'.repeat(64) }, 3);
    await expect(apply(harness)).rejects.toMatchObject({ code: 'configuration-unsigned' });
    expect(harness.sent).toEqual([]);
  });

  test('config apply keeps changes of others that an owner has signed', async () => {
    await using harness = await createChanged();
    harness.record('policy', { configurationSha256: LISTED_SHA256 }, 3);
    await apply(harness);
    const { document } = harness.sent[0]?.request as { readonly document: Uint8Array };
    expect(JSON.parse(Buffer.from(document).toString('utf8'))).toMatchObject({
      join: { policy: 'inventory', inventory: LISTED.join.inventory },
    });
  });

  test('config apply --onto replaces a configuration that no owner has signed, and keeps nothing of it', async () => {
    await using harness = await createChanged();
    await apply(harness, 7n);
    const { document } = harness.sent[0]?.request as { readonly document: Uint8Array };
    expect(JSON.parse(Buffer.from(document).toString('utf8'))).toMatchObject({
      join: { policy: 'auto', inventory: [] },
    });
  });

  test('node remove refuses to sign the rest of a configuration that no owner has signed', async () => {
    await using harness = await createSigned();
    harness.record('policy', { configurationSha256: '0'.repeat(64) });
    await expect(deleteNodeRecords(harness.owner, NODE as never, { isReset: false })).rejects.toMatchObject({
      code: 'configuration-unsigned',
    });
    expect(harness.sent).toEqual([]);
  });

  const granted = defineErrors({ 'test-granted': fault.operator.refused('', '') });
  const promote = async (machines: object | undefined, inventory: readonly object[]) => {
    const setNodeRoles = () =>
      Promise.reject(new CodedError(granted, 'test-granted', 'the roles are granted'));
    const getClusterInfo = async () => ({
      directory: [],
      etcd: { hasLeader: true, members: [{ isLearner: false }] },
    });
    const status = { controlPlane: reportedComponents() };
    const first = { ...NODE, nodeId: 'node-1', name: 'n1', roles: CONTROL, status };
    const harness = await createSigned({
      curator: { getClusterInfo, setNodeRoles, listNodes: async () => ({ nodes: [first, NODE] }) },
    });
    const { files, clusterId, owner } = harness;
    const pin = { version: 1, clusterId, name: 'n2', ...machines };
    await files.makeDirectory('/owner/machines');
    if (machines !== undefined) await files.writeAtomic('/owner/machines/n2.json', JSON.stringify(pin));
    const config = { ...BASE, join: { policy: 'inventory', inventory } };
    await files.writeAtomic('/owner/cluster.yaml', JSON.stringify(config));
    const roles = ['control-plane', 'worker'] as const;
    const promotion = runSetRole(owner, 'n2', { roles, dryRun: false, yes: true, drain });
    return { harness, promotion };
  };

  test.each([
    {
      name: 'another machine than the workspace knows',
      pin: { identity: `tpm-ek:${'f'.repeat(64)}` },
      inventory: [],
    },
    {
      name: 'another node key than the workspace knows',
      pin: { identity: EK, nodeId: `node-${'0'.repeat(32)}` },
      inventory: [],
    },
    {
      name: 'another machine than the inventory of the workspace lists',
      pin: undefined,
      inventory: [{ identity: `tpm-ek:${'f'.repeat(64)}`, name: 'n2', roles: ['worker'] }],
    },
  ])('node set-role refuses to sign a grant for a record that names $name', async ({ pin, inventory }) => {
    const { harness, promotion } = await promote(pin, inventory);
    await using _ = harness;
    await expect(promotion).rejects.toMatchObject({ code: 'nodes-machine-changed' });
    expect(harness.sent).toEqual([]);
  });

  test('node set-role signs a grant for a record that names the machine that the workspace knows', async () => {
    const known = { identity: EK, nodeId: NODE.nodeId };
    const { harness, promotion } = await promote(known, [{ identity: EK, name: 'n2', roles: ['worker'] }]);
    await using _ = harness;
    await expect(promotion).rejects.toMatchObject({ code: 'test-granted' });
  });

  test('node approve signs no grant for a join whose ID does not belong to its key', async () => {
    const foreign = `node-${'0'.repeat(32)}`;
    const join = { joinId: foreign, fingerprint: NODE_FINGERPRINT, identity: EK };
    await using harness = await createSigned({ admission: { listJoins: async () => ({ joins: [join] }) } });
    await runApprove(harness.owner, foreign, { name: undefined, roles: ['control-plane'], labels: {} });
    expect(harness.signed('grant')).toBeUndefined();
  });
});

describe('deleteNodeRecords()', () => {
  test('deletes the inventory entries of the machine and signs the remaining configuration', async () => {
    await using harness = await createSigned();
    harness.record('policy', { configurationSha256: LISTED_SHA256 });
    const entries = await deleteNodeRecords(harness.owner, NODE as never, { isReset: false });
    expect(entries).toMatchObject([{ name: 'n2', identity: EK }]);
    const { configuration, baseRevision } = harness.sent[0]?.request as {
      readonly configuration: Uint8Array;
      readonly baseRevision: bigint;
    };
    expect(JSON.parse(Buffer.from(configuration).toString('utf8'))).toMatchObject({
      attestation: LISTED.attestation,
      join: { policy: 'inventory', inventory: [] },
    });
    expect(baseRevision).toBe(7n);
    expect(harness.signed('policy')?.body.configurationSha256).toBe(
      createHash('sha256').update(configuration).digest('hex'),
    );
  });

  test('keeps the entries of a machine that is reset, and readmits it', async () => {
    await using harness = await createSigned();
    harness.onRecord.removed.push({
      identity: EK,
      removal: 2,
      nodeId: 'x',
      name: 'x',
      removedMs: 1n,
      removedBy: '',
      readmitted: true,
    });
    await deleteNodeRecords(harness.owner, NODE as never, { isReset: true });
    expect(harness.sent[0]?.request).toMatchObject({ configuration: new Uint8Array() });
    expect(harness.signed('readmission')?.body).toEqual({ identity: EK, removal: 3 });
  });

  test('repeats the change after a conflict', async () => {
    let tries = 0;
    const deleteNode = async () => {
      if (++tries < 3) throw new CodedError(testErrors, 'owner-document-serial-old', 'storing policy 1');
      return {};
    };
    await using harness = await createSigned({ curator: { deleteNode } });
    harness.record('policy', { configurationSha256: LISTED_SHA256 });
    await deleteNodeRecords(harness.owner, NODE as never, { isReset: false });
    expect(tries).toBe(3);
  });
});

describe('an operator who is not an owner', () => {
  test('signs nothing and cannot readmit or sign', async () => {
    await using harness = await createSigned();
    const fingerprint = fingerprintOfKey(pubKeyDerOf(harness.ownerKey.keyPem));
    harness.record('operators', { operators: [{ name: 'owner', fingerprint, role: 'owner' }] });
    const ann = await asOperator(harness);
    await runApprove(ann, NODE.nodeId, { name: undefined, roles: ['control-plane'], labels: {} });
    expect(harness.sent).toMatchObject([{ call: 'decideJoin', documents: [] }]);
    const entries = inventoryEntriesOf(NODE as never, { text: canonicalJson(LISTED) });
    const removing = (isLost: boolean) => requireOwnerForInventory(ann, NODE as never, { entries, isLost });
    await expect(removing(false)).rejects.toMatchObject({ code: 'owner-document-required' });
    await removing(true); // a lost machine may be removed without an owner: it stays excluded
    expect(ann.host.codes).toContain('node-inventory-owner');
    for (const refused of [runReadmit(ann, 'w9'), runSign(ann, { yes: true })])
      await expect(refused).rejects.toMatchObject({ code: 'owner-document-required', exit: 'refused' });
  });

  test('deletes the inventory entries of a removed machine with the signature of an owner from a file', async () => {
    await using harness = await createSigned({
      curator: { getClusterInfo: async () => ({ directory: [{ curatorEndpoint: harness.endpoint }] }) },
    });
    harness.record('policy', { configurationSha256: LISTED_SHA256 });
    harness.record('operators', { operators: [operatorOf('owner', harness.ownerKey.keyPem, 'owner')] });
    const ann = await asOperator(harness);
    const { keyPem } = await readCaller(ann);
    const operators = [
      operatorOf('owner', harness.ownerKey.keyPem, 'owner'),
      operatorOf('ann', keyPem, 'operator'),
    ];
    harness.record('operators', { operators }, 3);
    const asked = { ...ann, ownerSignature: { kind: 'request', path: '/ann/r' } as const };
    await expect(requestDeletion(asked, NODE as never)).rejects.toMatchObject({
      code: 'owner-document-required',
    });
    await requestDeletion(ann, NODE as never); // without the flag, nothing is requested
    expect(harness.sent).toEqual([]);
    await runSignRequest(harness.owner, '/ann/r', { yes: true, out: undefined });
    const signed = { ...ann, ownerSignature: { kind: 'signed', path: '/ann/r.signed' } as const };
    await requireOwnerForInventory(signed, NODE as never, {
      entries: [LISTED_ENTRY as never],
      isLost: false,
    });
    await deleteNodeRecords(signed, NODE as never, { isReset: false });
    expect(harness.sent).toMatchObject([{ call: 'deleteNode', request: { baseRevision: 7n } }]);
    expect(harness.signed('policy')?.serial).toBe(2);
  });
});

const [LISTED_ENTRY] = LISTED.join.inventory;

function operatorOf(name: string, keyPem: Parameters<typeof pubKeyDerOf>[0], role: 'owner' | 'operator') {
  return { name, fingerprint: fingerprintOfKey(pubKeyDerOf(keyPem)), role };
}
