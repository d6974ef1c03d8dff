import { beforeEach, describe, expect, test } from '@jest/globals';
import { createPrivateKey, createPublicKey, X509Certificate } from 'node:crypto';
import { generateEd25519Key, kubeconfigStatement, signEd25519 } from '../../internal/crypto/index.ts';
import { put } from '../../internal/etcd/index.ts';
import {
  createAuthorityPem,
  createRequest,
  fingerprintOfKey,
  generateKeyPem,
  pubKeyOf,
  spkiOf,
} from '../../internal/pki/index.ts';
import { encodeKeySet, makePairs, type KeySet } from '../../internal/keyset/index.ts';
import { CLUSTER_KEY, records } from '../../internal/records/index.ts';
import { MemoryEtcd } from '../../internal/testing/memory-etcd.ts';
import { MemoryFiles } from '../../internal/testing/memory-files.ts';
import { KeyRing } from './key-ring.ts';
import { signKubeconfig } from './kubeconfig-signer.ts';
import { Lifetimes } from './lifetimes.ts';

const signal = new AbortController().signal;
const clusterId = 'a'.repeat(32);
const ownerKeyPem = generateEd25519Key();
const operatorPubKeyDer = spkiOf(createPublicKey(createPrivateKey(ownerKeyPem.reveal())));
const kubectlKey = generateKeyPem();

let etcd: MemoryEtcd;
let keys: KeyRing;
let files: MemoryFiles;
let caPem: string;
let certificateRequest: Uint8Array;

function operatorOnRecord(role: 'owner' | 'operator' | 'viewer'): void {
  const fingerprint = fingerprintOfKey(operatorPubKeyDer);
  const record = { version: 1, name: 'owner', fingerprint, role, createdMs: 1 } as const;
  etcd.commitNow({
    when: [],
    then: [put(records.operator.key(fingerprint), records.operator.encode(record))],
  });
}

beforeEach(async () => {
  etcd = new MemoryEtcd();
  files = new MemoryFiles();
  const caKey = generateKeyPem();
  caPem = await createAuthorityPem({ commonName: 'kubernetes', keyPem: caKey, nowMs: Date.now() });
  await files.makeDirectory('/keys');
  await files.writeAtomic('/keys/kubernetes-ca.crt', caPem);
  await files.writeAtomic('/keys/kubernetes-ca.key', caKey.reveal());
  keys = new KeyRing({ files, folder: '/keys', nowMs: () => Date.now() });
  certificateRequest = await createRequest(kubectlKey, 'whatever it says');
  const cluster = {
    version: 1,
    clusterId,
    clusterName: 'blue',
    caPem,
    createdMs: 1,
    epoch: 1,
    firstNodeId: 'node-1',
  } as const;
  etcd.commitNow({ when: [], then: [put(CLUSTER_KEY, records.cluster.encode(cluster))] });
});

const rotation = async (phase: KeySet['phase']): Promise<KeySet> => {
  const [previous, next] = [await makePairs(2, Date.now()), await makePairs(3, Date.now())];
  return { generation: 3, phase, previous, next };
};

const sign = (over: { clusterId?: string; request?: Uint8Array; key?: typeof ownerKeyPem } = {}) => {
  const statement = kubeconfigStatement({ clusterId: over.clusterId ?? clusterId, certificateRequest });
  const signature = signEd25519(over.key ?? ownerKeyPem, statement);
  const request = over.request ?? certificateRequest;
  return signKubeconfig(
    { etcd, keys, lifetimes: new Lifetimes(etcd) },
    { certificateRequest: request, operatorPubKeyDer, signature },
    signal,
  );
};

describe('signKubeconfig()', () => {
  test('signs for the key that an owner on record asks for, as the record names the owner', async () => {
    operatorOnRecord('owner');
    const { certPem, kubernetesCaPem } = await sign();
    const certificate = new X509Certificate(certPem);
    expect(certificate.subject.split('\n')).toEqual(['CN=owner', 'O=kubeadm:cluster-admins']);
    expect(Buffer.compare(spkiOf(certificate.publicKey), pubKeyOf(kubectlKey))).toBe(0);
    expect(certificate.verify(new X509Certificate(kubernetesCaPem).publicKey)).toBe(true);
  });

  test('signs with the authority of clients once that is another one; servers keep theirs', async () => {
    operatorOnRecord('owner');
    const set = await rotation('issue');
    await files.writeAtomic('/keys/rotation.json', encodeKeySet(set).reveal());
    const { certPem, kubernetesCaPem } = await sign();
    const certificate = new X509Certificate(certPem);
    expect(kubernetesCaPem).toBe(caPem);
    expect(certificate.verify(new X509Certificate(caPem).publicKey)).toBe(false);
    const { public: nextPem } = set.next['kubernetes-clients-ca'];
    expect(certificate.verify(new X509Certificate(nextPem).publicKey)).toBe(true);
  });

  test('signs nothing with a rotation that can not be read', async () => {
    operatorOnRecord('owner');
    await files.writeAtomic('/keys/rotation.json', '{');
    await expect(sign()).rejects.toMatchObject({ code: 'keyset-invalid' });
  });

  test.each(['operator', 'viewer'] as const)('refuses somebody on record as %s', async (role) => {
    operatorOnRecord(role);
    await expect(sign()).rejects.toMatchObject({ code: 'signer-not-on-record' });
  });

  test('refuses a key that is not on record', async () => {
    await expect(sign()).rejects.toMatchObject({ code: 'signer-not-on-record' });
  });

  test('refuses what the owner did not sign: by another key, of another cluster, another request', async () => {
    operatorOnRecord('owner');
    const other = await createRequest(generateKeyPem(), 'another');
    for (const over of [{ key: generateEd25519Key() }, { clusterId: 'b'.repeat(32) }, { request: other }])
      await expect(sign(over)).rejects.toMatchObject({ code: 'signer-request-invalid' });
  });

  test('refuses a request that is none, also when the owner signed it', async () => {
    operatorOnRecord('owner');
    certificateRequest = new Uint8Array([1, 2, 3]);
    await expect(sign()).rejects.toMatchObject({ code: 'signer-request-invalid' });
  });
});
