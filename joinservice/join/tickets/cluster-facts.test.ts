import { expect, test } from '@jest/globals';
import { generateKeyPairSync } from 'node:crypto';
import { parseDocument } from '../../../internal/ownerdocument/index.ts';
import { CLUSTER_KEY, OWNERSHIP_KEY, records } from '../../../internal/records/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import { FakeClock, MemoryEtcd } from '../../../internal/testing/index.ts';
import { TestOwner } from '../../../internal/testing/cluster/test-owner.ts';
import { ClusterFacts } from './cluster-facts.ts';

const { signal } = new AbortController();
const clock = new FakeClock();
const owner = new TestOwner({ clock });
const session = new Uint8Array(64);

async function createFacts() {
  const etcd = new MemoryEtcd();
  const keyPem = generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' });
  const cluster = {
    ...{ version: 1 as const, clusterId: 'c0ffee', clusterName: 'blue', caPem: 'FIRST', epoch: 1 },
    ...{ createdMs: 1, firstNodeId: 'n' },
  };
  const ownership = { version: 1 as const, ownerPubKey: 'AA==', signature: 'AA==', epoch: 1, timeMs: 1 };
  const then = [records.cluster.put(CLUSTER_KEY, cluster), records.ownership.put(OWNERSHIP_KEY, ownership)];
  await etcd.commit({ when: [], then }, { signal });
  const facts = new ClusterFacts({
    ...{ etcd, clock, clusterCaPem: 'TRUSTED', own: { nodeId: 'n', address: '192.0.2.1' } },
    identity: { certPem: 'CERT', keyPem: new Secret(keyPem.toString()) },
    listNodes: () => Promise.resolve([]),
  });
  return { etcd, facts };
}

test('until the first replacement of the shared keys, clusterIdentity() shows only the CA that the owner has signed', async () => {
  const { facts } = await createFacts();
  const identity = await facts.clusterIdentity(session, signal);
  expect(identity.clusterCaPem).toBe('FIRST');
  expect(identity).not.toHaveProperty('currentCaPem');
});

test('clusterIdentity() shows the CAs that this node trusts, with the owners and their signature over the newest keys', async () => {
  const { etcd, facts } = await createFacts();
  const then = [
    owner.documentWrite('owners', { keys: [Buffer.from(owner.pubKey).toString('base64')] }),
    owner.documentWrite('keys', { generation: 2, previous: {}, next: {} }),
  ];
  await etcd.commit({ when: [], then }, { signal });
  const { currentCaPem, ownerDocuments } = await facts.clusterIdentity(session, signal);
  expect(currentCaPem).toBe('TRUSTED');
  expect(ownerDocuments?.map((bytes) => parseDocument(bytes).kind)).toEqual(['owners', 'keys']);
});
