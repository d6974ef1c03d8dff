import { X509Certificate } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { Namespace } from '../../internal/etcd/index.ts';
import {
  createCaCertPem,
  generateKeyPem,
  KeyCertificateSigner,
  nodeIdOf,
  pubKeyDerOf,
} from '../../internal/pki/index.ts';
import { CLUSTER_PREFIX, records } from '../../internal/records/index.ts';
import { MemoryEtcd } from '../../internal/testing/index.ts';
import { bootstrap } from '../roleserve/fake-node.ts';
import { createFirstRecords, type FirstEvidence } from './create-first-records.ts';

const signal = new AbortController().signal;
const NOW_MS = Date.UTC(2026, 0, 1);
const nowMs = (): number => NOW_MS;
const keyOnly: FirstEvidence = {
  variant: 'machine-key',
  readEnrolment: async () => undefined,
  readLockCounter: async () => undefined,
};

async function createAuthority(): Promise<KeyCertificateSigner> {
  const keyPem = generateKeyPem();
  return new KeyCertificateSigner({
    caPem: await createCaCertPem({ commonName: 'cluster blue', keyPem, nowMs: NOW_MS }),
    keyPem,
    nowMs,
  });
}

function createMachine() {
  const keyPem = generateKeyPem();
  const pubKeyDer = pubKeyDerOf(keyPem);
  return { keyPem, pubKeyDer, nodeId: nodeIdOf(pubKeyDer), fingerprint: `sha256:${'ab'.repeat(32)}` };
}

async function createCluster() {
  const [admin, authority, machine] = [new MemoryEtcd(), await createAuthority(), createMachine()];
  const owner = { name: 'owner', pubKeyDer: pubKeyDerOf(generateKeyPem()) };
  const create = (over: {
    readonly authority?: KeyCertificateSigner;
    readonly machine?: ReturnType<typeof createMachine>;
    readonly documents?: readonly string[];
  }) =>
    createFirstRecords(
      { admin, authority: over.authority ?? authority, nowMs },
      {
        data: {
          ...bootstrap,
          spec: { ...bootstrap.spec, ownerDocumentsBase64: [...(over.documents ?? [])] },
        },
        machine: over.machine ?? machine,
        evidence: keyOnly,
        address: '198.18.0.11',
        owners: [owner],
        signal,
      },
    );
  const space = new Namespace(admin, CLUSTER_PREFIX);
  return { authority, machine, create, list: async () => (await space.list('', { signal })).entries };
}

describe('createFirstRecords()', () => {
  test('makes this machine the first control plane of the cluster, with a certificate for its key and address', async () => {
    const { authority, machine, create, list } = await createCluster();
    const { membership, roles } = await create({});
    expect(roles).toContain('ConsensusMember');
    expect(membership).toMatchObject({
      clusterId: bootstrap.spec.clusterId,
      nodeId: machine.nodeId,
      clusterCaPem: authority.caPem,
      epoch: 1,
      directory: [{ nodeId: machine.nodeId, host: '198.18.0.11' }],
    });
    const certificate = new X509Certificate(membership.nodeCertPem);
    expect(certificate.verify(new X509Certificate(authority.caPem).publicKey)).toBe(true);
    expect(Buffer.from(certificate.publicKey.export({ format: 'der', type: 'spki' }))).toEqual(
      Buffer.from(machine.pubKeyDer),
    );
    expect(certificate.subjectAltName).toContain('IP Address:198.18.0.11');
    const node = (await list()).find(({ key }) => key === records.node.key(machine.nodeId));
    expect(records.node.decode('n', node?.value ?? new Uint8Array())).toMatchObject({
      state: 'UP',
      admission: { proof: 'pinned', identity: `machine-key:${'ab'.repeat(32)}` },
    });
  });

  test('writes nothing and returns the same membership when it is repeated after a crash', async () => {
    const { create, list } = await createCluster();
    const { nodeCertPem: _first, ...first } = (await create({})).membership;
    const before = await list();
    const { nodeCertPem: _second, ...second } = (await create({})).membership;
    expect(second).toEqual(first);
    expect(await list()).toEqual(before);
  });

  test('refuses etcd that has the records of another CA or another first machine', async () => {
    const { create, list } = await createCluster();
    await create({});
    const before = await list();
    for (const over of [{ authority: await createAuthority() }, { machine: createMachine() }])
      await expect(create(over)).rejects.toMatchObject({ code: 'consensus-other-cluster' });
    expect(await list()).toEqual(before);
  });

  test('leaves out a document that it cannot parse', async () => {
    const { create, list } = await createCluster();
    await create({ documents: [Buffer.from('{}').toString('base64')] });
    const keys = (await list()).map(({ key }) => key);
    expect(keys.filter((key) => key.includes('document'))).toEqual([]);
    expect(keys).toContain('meta/cluster');
  });
});
