import { beforeEach, describe, expect, test } from '@jest/globals';
import { createPrivateKey, createPublicKey, X509Certificate } from 'node:crypto';
import { generateEd25519Key, kubeconfigStatement, signEd25519 } from '../../internal/crypto/index.ts';
import { put } from '../../internal/etcd/index.ts';
import {
  createCertificateRequest,
  fingerprintOfKey,
  generateKeyPem,
  pubKeyDerOf,
  spkiDerOf,
} from '../../internal/pki/index.ts';
import { encodeKeySet, createPairs, type KeySet } from '../../internal/keyset/index.ts';
import { records } from '../../internal/records/index.ts';
import { FakeSigner } from './fake-signer.ts';
import { signKubeconfig } from './kubeconfig-signer.ts';

const never = new AbortController().signal;
const kubectlKey = generateKeyPem();

let signer: FakeSigner;
let caPem: string;
let certificateRequest: Uint8Array;

beforeEach(async () => {
  signer = await FakeSigner.create();
  const read = await signer.files.read('/keys/kubernetes-ca.crt', 65_536);
  caPem = Buffer.from(read ?? []).toString('utf8');
  certificateRequest = await createCertificateRequest(kubectlKey, 'whatever it says');
});

const rotation = async (phase: KeySet['phase']): Promise<KeySet> => {
  const nowMs = signer.clock.nowMs();
  const [previous, next] = [await createPairs(2, nowMs), await createPairs(3, nowMs)];
  return { generation: 3, phase, previous, next };
};

const sign = (
  over: {
    clusterId?: string;
    request?: Uint8Array;
    key?: ReturnType<typeof generateEd25519Key>;
    as?: Uint8Array;
  } = {},
) => {
  const clusterId = over.clusterId ?? signer.cluster.clusterId;
  const statement = kubeconfigStatement({ clusterId, certificateRequest });
  const signature = signEd25519(over.key ?? signer.owner.keyPem, statement);
  const operatorPublicKey = over.as ?? spkiFrom(signer.owner.keyPem);
  return signKubeconfig(
    signer.reads,
    { certificateRequest: over.request ?? certificateRequest, operatorPublicKey, signature },
    never,
  );
};

function spkiFrom(keyPem: ReturnType<typeof generateEd25519Key>): Uint8Array {
  return spkiDerOf(createPublicKey(createPrivateKey(keyPem.reveal())));
}

describe('signKubeconfig()', () => {
  test('signKubeconfig() signs the key that an owner requests, with the recorded name of the owner', async () => {
    const { certificatePem, kubernetesCaPem } = await sign();
    const certificate = new X509Certificate(certificatePem);
    expect(certificate.subject.split('\n')).toEqual([
      'CN=owner',
      'O=kubeadm:cluster-admins',
      `1.3.6.1.4.1.57683.2=${fingerprintOfKey(spkiFrom(signer.owner.keyPem))}`,
    ]);
    expect(Buffer.compare(spkiDerOf(certificate.publicKey), pubKeyDerOf(kubectlKey))).toBe(0);
    expect(certificate.verify(new X509Certificate(kubernetesCaPem).publicKey)).toBe(true);
  });

  test('signKubeconfig() signs with the new client CA after a rotation, and returns the unchanged CA of API servers', async () => {
    const set = await rotation('issue');
    await signer.files.writeAtomic('/keys/rotation.json', encodeKeySet(set).reveal());
    const { certificatePem, kubernetesCaPem } = await sign();
    const certificate = new X509Certificate(certificatePem);
    expect(kubernetesCaPem).toBe(caPem);
    expect(certificate.verify(new X509Certificate(caPem).publicKey)).toBe(false);
    const { public: nextPem } = set.next['kubernetes-clients-ca'];
    expect(certificate.verify(new X509Certificate(nextPem).publicKey)).toBe(true);
  });

  test('signKubeconfig() refuses to sign with an invalid rotation file', async () => {
    await signer.files.writeAtomic('/keys/rotation.json', '{');
    await expect(sign()).rejects.toMatchObject({ code: 'keyset-invalid' });
  });

  test.each(['owner', 'operator', 'viewer'] as const)(
    'signKubeconfig() refuses a key that is recorded as %s but that no owner has signed',
    async (role) => {
      const key = generateEd25519Key();
      const fingerprint = fingerprintOfKey(spkiFrom(key));
      const record = { version: 1, name: 'eve', fingerprint, role, createdMs: 1 } as const;
      signer.write(put(records.operator.key(fingerprint), records.operator.encode(record)));
      await expect(sign({ key, as: spkiFrom(key) })).rejects.toMatchObject({ code: 'signer-not-on-record' });
    },
  );

  test.each([
    ['operator', 'cluster:operators'],
    ['viewer', 'cluster:viewers'],
  ] as const)(
    'signKubeconfig() gives a person with the role %s the group %s and the key as UID',
    async (role, group) => {
      const key = generateEd25519Key();
      const fingerprint = fingerprintOfKey(spkiFrom(key));
      signer.write(
        signer.owner.documentWrite('operators', { operators: [{ name: 'ann', fingerprint, role }] }),
      );
      const { certificatePem } = await sign({ key, as: spkiFrom(key) });
      expect(new X509Certificate(certificatePem).subject.split('\n')).toEqual([
        'CN=ann',
        `O=${group}`,
        `1.3.6.1.4.1.57683.2=${fingerprint}`,
      ]);
    },
  );

  test('signKubeconfig() refuses a signature by another key, for another cluster, or for another request', async () => {
    const other = await createCertificateRequest(generateKeyPem(), 'another');
    for (const over of [{ key: generateEd25519Key() }, { clusterId: 'b'.repeat(32) }, { request: other }])
      await expect(sign(over)).rejects.toMatchObject({ code: 'signer-request-invalid' });
  });

  test('signKubeconfig() refuses a malformed request that the owner signed', async () => {
    certificateRequest = new Uint8Array([1, 2, 3]);
    await expect(sign()).rejects.toMatchObject({ code: 'signer-request-invalid' });
  });
});
