import { beforeAll, describe, expect, test } from '@jest/globals';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { generateEd25519Key, signEd25519, ticketKeysStatement, unseal } from '../../internal/crypto/index.ts';
import { encodeKeySet, makePairs, type KeySet } from '../../internal/keyset/index.ts';
import {
  certificateTimesOf,
  createRequest,
  generateKeyPem,
  pubKeyOf,
  verifyControlPlane,
} from '../../internal/pki/index.ts';
import { put } from '../../internal/etcd/index.ts';
import { CONFIGURATION_KEY, records } from '../../internal/records/index.ts';
import type { Role } from '../../internal/role/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import { configurationWrite, MemoryEtcd, MemoryFiles, TestCluster } from '../../internal/testing/index.ts';
import { CONTROL_PLANE_KEYS, KeyRing, ROTATION_KEY } from './key-ring.ts';
import { Lifetimes } from './lifetimes.ts';
import { MemberSigner } from './member-signer.ts';

const signal = new AbortController().signal;
const nowMs = () => Date.now();
const sealingKeyPem = generateKeyPem();
const configuration = {
  attestation: { variants: ['machine-key'], firstContact: 'fingerprint' },
  join: { policy: 'approve', inventory: [] },
};
let etcd: MemoryEtcd;
let files: MemoryFiles;
let signer: MemberSigner;
let cluster: TestCluster;
let set: KeySet;

beforeAll(async () => {
  etcd = new MemoryEtcd();
  cluster = await TestCluster.create(etcd, nowMs);
  etcd.commitNow({ when: [], then: [configurationWrite(configuration)] });
  set = {
    generation: 2,
    phase: 'issue',
    previous: await makePairs(1, nowMs()),
    next: await makePairs(2, nowMs()),
  };
  files = new MemoryFiles();
  await files.makeDirectory('/keys');
  const kubernetes = set.previous['kubernetes-clients-ca'];
  const pairs: Record<string, { readonly public: string; readonly private: Secret<string> }> = {
    'cluster-ca': { public: cluster.authority.caPem, private: cluster.authority.keyPem },
    'kubernetes-ca': kubernetes,
  };
  for (const name of CONTROL_PLANE_KEYS) await files.writeAtomic(`/keys/${name}`, `text of ${name}`);
  for (const [name, pair] of Object.entries(pairs)) {
    await files.writeAtomic(`/keys/${name}.crt`, pair.public);
    await files.writeAtomic(`/keys/${name}.key`, pair.private.reveal());
  }
  signer = new MemberSigner({
    ...{ etcd, lifetimes: new Lifetimes(etcd) },
    keys: new KeyRing({ files, folder: '/keys', nowMs }),
  });
});

async function signFor(name: string, roles: readonly Role[]) {
  const keyPem = generateEd25519Key();
  const { identity } = await cluster.addNode(name, { roles: [...roles] }, createPrivateKey(keyPem.reveal()));
  if (identity.kind !== 'node') throw new TypeError('no node');
  const asked = {
    nodeId: identity.nodeId,
    kubeletClientCsr: await createRequest(generateKeyPem(), 'kubelet'),
    kubeletServingCsr: await createRequest(generateKeyPem(), 'kubelet'),
    sealingPublicKey: pubKeyOf(sealingKeyPem),
  };
  const signature = signEd25519(keyPem, ticketKeysStatement(asked));
  const signed = await signer.signMember({ ...asked, address: '192.0.2.7', signature }, signal);
  const issuers = [signed.kubeletClientCertPem, signed.kubeletServingCertPem].map(
    (pem) => new X509Certificate(pem).issuer,
  );
  return { nodeId: identity.nodeId, signed, issuers };
}

test.each([
  { name: 'a control plane', roles: ['ConsensusMember', 'KubernetesController'] as const, is: true },
  { name: 'a worker', roles: ['KubernetesWorker'] as const, is: false },
])('the certificate of $name says whether it is a control plane, by its roles on record', async (given) => {
  const { signed } = await signFor('x1', given.roles);
  const verify = (): unknown => verifyControlPlane(new X509Certificate(signed.nodeCertPem), cluster.trust);
  if (given.is) expect(verify()).toMatchObject({ kind: 'node' });
  else expect(verify).toThrow(expect.objectContaining({ code: 'pki-untrusted' }));
});

test('one Kubernetes CA signs for a kubelet as client and as server, and nobody else is named, while no key was replaced', async () => {
  const { signed, issuers } = await signFor('w1', ['KubernetesWorker']);
  expect(issuers).toEqual(['CN=kubernetes clients 1', 'CN=kubernetes clients 1']);
  expect(signed).toMatchObject({ kubernetesClientsCaPem: '', controlPlaneKeys: undefined });
});

test('afterwards the authority in force signs for clients, both that are believed are named, and control planes get what says so', async () => {
  await files.writeAtomic(`/keys/${ROTATION_KEY}`, encodeKeySet(set).reveal());
  const { nodeId, signed, issuers } = await signFor('c2', ['ConsensusMember', 'KubernetesController']);
  expect(issuers).toEqual(['CN=kubernetes clients 2', 'CN=kubernetes clients 1']);
  const { previous, next } = set;
  expect(signed.kubernetesCaPem).toBe(previous['kubernetes-clients-ca'].public);
  for (const pairs of [previous, next])
    expect(signed.kubernetesClientsCaPem).toContain(pairs['kubernetes-clients-ca'].public.trim());
  const context = { kind: 'control-plane-keys', clusterId: cluster.clusterId, nodeId } as const;
  const sealed = signed.controlPlaneKeys;
  if (sealed === undefined) throw new TypeError('no keys');
  const text = Buffer.from(unseal(sealed, sealingKeyPem, context).reveal()).toString('utf8');
  expect(JSON.parse(text)).toMatchObject({ [ROTATION_KEY]: encodeKeySet(set).reveal() });
  expect((await signFor('w2', ['KubernetesWorker'])).signed.controlPlaneKeys).toBeUndefined();
});

describe('an operator on record', () => {
  const configure = (document: object): void => {
    const text = Buffer.from(JSON.stringify(document)).toString('base64');
    const record = { version: 1, document: text, updatedMs: 1, updatedBy: 'operator:owner' } as const;
    etcd.commitNow({ when: [], then: [put(CONFIGURATION_KEY, records.configuration.encode(record))] });
  };

  test.each([
    {
      name: 'is as long as the configuration says',
      given: { certificates: { operatorMinutes: 6 } },
      want: 6,
    },
    { name: 'is a year where it says nothing', given: {}, want: 365 * 24 * 60 },
    {
      name: 'is a year where nobody can read it: who is to mend it has to get in',
      given: { x: 1 },
      want: 365 * 24 * 60,
    },
  ])('has a certificate whose life $name', async ({ given, want }) => {
    configure({ version: 1, name: 'prod', ...configuration, ...given });
    const { tls } = await cluster.addOperator('ann', 'viewer');
    const certPem = await signer.signOperator(await createRequest(tls.keyPem, 'x'), signal);
    const { madeMs, notAfterMs } = certificateTimesOf(certPem);
    expect(Math.round((notAfterMs - madeMs) / 60_000)).toBe(want);
  });
});
