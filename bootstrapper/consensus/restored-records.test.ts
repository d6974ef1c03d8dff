import { beforeEach, describe, expect, test } from '@jest/globals';
import { Namespace, put } from '../../internal/etcd/index.ts';
import { generateKeyPem, nodeIdOf, pubKeyDerOf } from '../../internal/pki/index.ts';
import {
  BACKUP_HEAD_KEY,
  BACKUP_SCHEDULE_KEY,
  CLUSTER_KEY,
  CLUSTER_PREFIX,
  KEYS_KEY,
  MERGED_REMOVALS_KEY,
  records,
  type NodeRecord,
} from '../../internal/records/index.ts';
import { MemoryEtcd } from '../../internal/testing/index.ts';
import { createClusterRecords, type NewCluster } from './cluster-records.ts';
import { restoreClusterRecords } from './restored-records.ts';

const { signal } = new AbortController();
const CLUSTER_ID = 'c0ffee';
const NOW_MS = Date.UTC(2026, 0, 1);
const OLD_TPM = `tpm-ek:${'0a'.repeat(32)}`;
const NEW_TPM = `tpm-ek:${'0b'.repeat(32)}`;

let etcd: Namespace;
let store: MemoryEtcd;
beforeEach(() => {
  store = new MemoryEtcd();
  etcd = new Namespace(store, CLUSTER_PREFIX);
});

function cluster(name: string, identity: string, over: Partial<NewCluster> = {}): NewCluster {
  return {
    ...{ clusterId: CLUSTER_ID, clusterName: 'blue', caPem: 'CA', nowMs: NOW_MS },
    node: {
      ...{ name, address: '192.0.2.1', labels: {}, roles: ['ConsensusMember', 'KubernetesController'] },
      pubKeyDer: pubKeyDerOf(generateKeyPem()),
      admission: {
        ...{ variant: 'tpm', identity, proof: 'pinned', profile: 'identity', policyVersion: 'init' },
        ...{ decidedBy: 'init', timeMs: NOW_MS, evidenceDigest: 'ab'.repeat(32) },
      },
    },
    settings: {
      ...{ clusterName: 'blue', kubernetesVersion: 'v1.37.2', bundleManifest: '{}', apiServerSans: [] },
      ...{ podSubnet: '198.19.0.0/17', serviceSubnet: '198.19.128.0/20' },
    },
    owners: [{ name: 'owner', pubKeyDer: pubKeyDerOf(generateKeyPem()) }],
    configuration: Buffer.from('{}'),
    documents: [{ key: `documents/policy/${name}`, bytes: new Uint8Array([1]) }],
    ...over,
  };
}

const keys = async (prefix: string): Promise<readonly string[]> =>
  (await etcd.list(prefix, { signal })).entries.map(({ key }) => key);

async function createOldCluster(members = 1): Promise<readonly string[]> {
  const old = cluster('n1', OLD_TPM);
  await createClusterRecords(etcd, old, signal);
  const nodeIds = [nodeIdOf(old.node.pubKeyDer)];
  for (let index = 1; index < members; index++) {
    const pubKeyDer = pubKeyDerOf(generateKeyPem());
    const nodeId = nodeIdOf(pubKeyDer);
    nodeIds.push(nodeId);
    const pubKey = Buffer.from(pubKeyDer).toString('base64');
    const record: NodeRecord = {
      ...{ version: 1, nodeId, name: `w${index}`, pubKey, state: 'UP', createdMs: NOW_MS },
      ...{ roles: [], labels: {} },
    };
    await etcd.commit({ when: [], then: [records.node.put(records.node.key(nodeId), record)] }, { signal });
  }
  await etcd.commit({ when: [], then: [put('joins/j1', new Uint8Array([1]))] }, { signal });
  return nodeIds;
}

describe('restoreClusterRecords()', () => {
  test('makes the new machine the only member, in the new epoch, with the documents of the owner', async () => {
    await createOldCluster();
    const created = cluster('n7', NEW_TPM);
    const restored = await restoreClusterRecords(etcd, created, { epoch: 4, signal });
    const firstNodeId = nodeIdOf(created.node.pubKeyDer);
    expect(restored).toMatchObject({ clusterId: CLUSTER_ID, epoch: 4, firstNodeId, createdMs: NOW_MS });
    expect(await keys('nodes/')).toEqual([records.node.key(firstNodeId)]);
    expect(await keys('node-names/')).toEqual(['node-names/n7']);
    expect(await keys('identities/')).toEqual([records.identity.key(NEW_TPM)]);
    expect(await keys('documents/')).toEqual(['documents/policy/n7']);
    expect(await keys('operators/')).toHaveLength(1);
    expect(await keys('joins/')).toEqual([]);
  });

  test('keeps the schedule of backups, so that it is missed, and forgets the backups on the old machines', async () => {
    await createOldCluster();
    const gone = [records.backup.key('1'), records.backupCopies.key('node-old'), BACKUP_HEAD_KEY];
    const then = [BACKUP_SCHEDULE_KEY, ...gone].map((key) => put(key, new Uint8Array([1])));
    await etcd.commit({ when: [], then }, { signal });
    await restoreClusterRecords(etcd, cluster('n7', NEW_TPM), { epoch: 2, signal });
    expect(await keys('backups/')).toEqual([BACKUP_SCHEDULE_KEY]);
  });

  test('records every old machine as removed, by its hardware and its key', async () => {
    await createOldCluster(130);
    await restoreClusterRecords(etcd, cluster('n7', NEW_TPM), { epoch: 2, signal });
    expect(await keys('removed/')).toHaveLength(131);
    const { record } = await records.removed.read(etcd, records.removed.key(OLD_TPM), signal);
    expect(record).toMatchObject({ name: 'n1', removal: 1, removedBy: 'restore', sharedKeys: 'left' });
  });

  test('counts one more removal of a machine that was removed before', async () => {
    await createOldCluster();
    const key = records.removed.key(OLD_TPM);
    const before = { version: 1, identity: OLD_TPM, removal: 3, nodeId: 'n', name: 'n1' } as const;
    const write = records.removed.put(key, { ...before, removedMs: NOW_MS, removedBy: 'ann' });
    await etcd.commit({ when: [], then: [write] }, { signal });
    await restoreClusterRecords(etcd, cluster('n7', NEW_TPM), { epoch: 2, signal });
    expect((await records.removed.read(etcd, key, signal)).record?.removal).toBe(4);
  });

  test('records machines that only the workspace of the owner knows as removed', async () => {
    await createOldCluster();
    const later = { identity: `tpm-ek:${'0c'.repeat(32)}`, nodeId: 'node-c', name: 'n5' };
    const options = { epoch: 2, knownMachines: [later], signal };
    await restoreClusterRecords(etcd, cluster('n7', NEW_TPM), options);
    const { record } = await records.removed.read(etcd, records.removed.key(later.identity), signal);
    expect(record).toMatchObject({ ...later, removal: 1, removedBy: 'restore' });
  });

  test('keeps the removal of a known machine that the backup has too, and does not refuse the machine that runs the restore', async () => {
    await createOldCluster();
    const key = records.removed.key(OLD_TPM);
    const known = [OLD_TPM, NEW_TPM].map((identity) => ({ identity, nodeId: 'node-1', name: 'n1' }));
    const options = { epoch: 2, knownMachines: known, signal };
    await restoreClusterRecords(etcd, cluster('n7', NEW_TPM), options);
    expect((await records.removed.read(etcd, key, signal)).record?.removal).toBe(1);
    expect(await keys('removed/')).not.toContain(records.removed.key(NEW_TPM));
  });

  test('does not record the machine that runs the restore as removed, even if it was a member of the old cluster', async () => {
    await createOldCluster();
    await restoreClusterRecords(etcd, cluster('n7', OLD_TPM), { epoch: 2, signal });
    expect(await keys('removed/')).not.toContain(records.removed.key(OLD_TPM));
    expect(await keys('removed/')).toHaveLength(1);
  });

  describe('keeps workers that the owner has named', () => {
    const TPM = `tpm-ek:${'0d'.repeat(32)}`;

    async function addWorker(over: Partial<NodeRecord> = {}): Promise<NodeRecord> {
      const pubKeyDer = pubKeyDerOf(generateKeyPem());
      const { admission } = cluster('', TPM).node;
      if (admission === undefined) throw new TypeError('admission expected');
      const record: NodeRecord = {
        ...{ version: 1, nodeId: nodeIdOf(pubKeyDer), name: 'kept', state: 'UP', createdMs: NOW_MS },
        ...{ pubKey: Buffer.from(pubKeyDer).toString('base64'), labels: { zone: 'a' }, admission },
        ...{ roles: ['KubernetesWorker'], ...over },
      };
      const { nodeId, name } = record;
      const then = [
        records.node.put(records.node.key(nodeId), record),
        put(`node-names/${name}`, Buffer.from(nodeId)),
        records.identity.put(records.identity.key(TPM), { version: 1, nodeId }),
      ];
      await etcd.commit({ when: [], then }, { signal });
      return record;
    }

    test('with their records, and removes all others', async () => {
      await createOldCluster(3);
      const { nodeId, name } = await addWorker();
      await etcd.commit(
        { when: [], then: [put(`nodes/${nodeId}/heartbeat`, Buffer.from('old'))] },
        { signal },
      );
      const created = cluster('n7', NEW_TPM);
      const options = { epoch: 2, keptWorkers: [{ nodeId, name }], signal };
      await restoreClusterRecords(etcd, created, options);
      const first = nodeIdOf(created.node.pubKeyDer);
      expect([...(await keys('nodes/'))].sort()).toEqual(
        [first, nodeId].map((id) => records.node.key(id)).sort(),
      );
      expect(await keys('node-names/')).toEqual(['node-names/kept', 'node-names/n7']);
      expect([...(await keys('identities/'))].sort()).toEqual(
        [NEW_TPM, TPM].map((id) => records.identity.key(id)).sort(),
      );
      expect(await keys('removed/')).toHaveLength(4);
      expect(await keys('removed/')).not.toContain(records.removed.key(TPM));
    });

    test('and lets each of them report once which removals it knows, but no worker of an earlier restore', async () => {
      await createOldCluster();
      const { nodeId, name } = await addWorker();
      const earlier = [nodeId, 'node-earlier'].map((id) =>
        records.keptWorker.put(records.keptWorker.key(id), { version: 1, merged: 7, isDone: true }),
      );
      const total = records.mergedRemovals.put(MERGED_REMOVALS_KEY, { version: 1, merged: 7 });
      await etcd.commit({ when: [], then: [...earlier, total] }, { signal });
      const options = { epoch: 2, keptWorkers: [{ nodeId, name }], signal };
      await restoreClusterRecords(etcd, cluster('n7', NEW_TPM), options);
      expect(await keys('kept/')).toEqual([records.keptWorker.key(nodeId)]);
      const { record } = await records.keptWorker.read(etcd, records.keptWorker.key(nodeId), signal);
      expect(record).toEqual({ version: 1, merged: 0, isDone: false });
    });

    test.each([
      { why: 'the backup has no such node', named: { nodeId: 'node-other' } },
      { why: 'the backup has no such node', named: { name: 'other' } },
      {
        why: 'it is not only a worker',
        over: { roles: ['ConsensusMember' as const, 'KubernetesWorker' as const] },
      },
      { why: 'it was not a member, or it was being removed', over: { state: 'DECOMMISSIONED' as const } },
      { why: 'it was removed', known: TPM },
      { why: 'it has the machine or the name of the first node', first: cluster('n7', TPM) },
      { why: 'it has the machine or the name of the first node', first: cluster('kept', NEW_TPM) },
    ])('except one of which $why: then nothing is changed', async ({ named, over, known, first, why }) => {
      await createOldCluster();
      const { nodeId, name } = await addWorker(over);
      const before = await etcd.list('', { signal });
      const knownMachines = known === undefined ? [] : [{ identity: known, nodeId: 'node-x', name: 'x' }];
      const keptWorkers = [{ nodeId, name, ...named }];
      const options = { epoch: 2, keptWorkers, knownMachines, signal };
      const restoring = restoreClusterRecords(etcd, first ?? cluster('n7', NEW_TPM), options);
      await expect(restoring).rejects.toMatchObject({ code: 'consensus-worker-not-kept' });
      await expect(restoring).rejects.toThrow(why);
      expect((await etcd.list('', { signal })).entries).toEqual(before.entries);
    });
  });

  test('records the CA in the backup’s keys if a rotation has replaced the first CA of the cluster', async () => {
    await createOldCluster();
    const rotated = {
      ...({ version: 1, generation: 2, phase: 'done' } as const),
      ...{ reason: '', startedBy: 'operator:ann', startedMs: 1, phaseSinceMs: 1 },
    };
    await etcd.commit({ when: [], then: [records.keys.put(KEYS_KEY, rotated)] }, { signal });
    const created = cluster('n7', NEW_TPM, { caPem: 'NEXT' });
    const restored = await restoreClusterRecords(etcd, created, { epoch: 2, signal });
    expect(restored.caPem).toBe('NEXT');
    expect(await restoreClusterRecords(etcd, created, { epoch: 2, signal })).toEqual(restored);
  });

  test('changes nothing when it is repeated after a crash', async () => {
    await createOldCluster();
    const created = cluster('n7', NEW_TPM);
    const first = await restoreClusterRecords(etcd, created, { epoch: 2, signal });
    const before = await etcd.list('', { signal });
    expect(await restoreClusterRecords(etcd, created, { epoch: 2, signal })).toEqual(first);
    expect((await etcd.list('', { signal })).entries).toEqual(before.entries);
  });

  test.each([
    { name: 'another cluster', over: { clusterId: 'decaf' }, epoch: 2 },
    { name: 'a cluster with another CA', over: { caPem: 'OTHER' }, epoch: 2 },
    { name: 'an epoch that is not newer', over: {}, epoch: 1 },
  ])('refuses a snapshot of $name, and changes nothing', async ({ over, epoch }) => {
    await createOldCluster();
    const before = await etcd.list('', { signal });
    await expect(
      restoreClusterRecords(etcd, cluster('n7', NEW_TPM, over), { epoch, signal }),
    ).rejects.toMatchObject({ code: 'consensus-other-cluster' });
    expect((await etcd.list('', { signal })).entries).toEqual(before.entries);
  });

  test('refuses a snapshot without a cluster', async () => {
    const restored = restoreClusterRecords(etcd, cluster('n7', NEW_TPM), { epoch: 2, signal });
    await expect(restored).rejects.toMatchObject({ code: 'consensus-other-cluster' });
    expect((await etcd.get(CLUSTER_KEY, { signal })) === undefined).toBe(true);
  });
});
