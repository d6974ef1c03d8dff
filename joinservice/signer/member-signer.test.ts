import { beforeEach, describe, expect, test } from '@jest/globals';
import { X509Certificate } from 'node:crypto';
import { put } from '../../internal/etcd/index.ts';
import { encodeKeySet, createPairs, type KeySet, ROTATION_FILE } from '../../internal/keyset/index.ts';
import {
  certificateTimesOf,
  createCertificateRequest,
  nodeIdOf,
  spkiDerOf,
  verifyControlPlaneCertificate,
} from '../../internal/pki/index.ts';
import { CONFIGURATION_KEY, records } from '../../internal/records/index.ts';
import type { Role } from '../../internal/role/index.ts';
import { CONFIGURATION, CONTROL_PLANE, FakeSigner, SignerMachine } from './fake-signer.ts';
import { MemberSigner } from './member-signer.ts';

const never = new AbortController().signal;
let signer: FakeSigner;
let set: KeySet;

beforeEach(async () => {
  signer = await FakeSigner.create();
  const nowMs = signer.clock.nowMs();
  set = {
    ...{ generation: 2, phase: 'issue' as const },
    previous: await createPairs(1, nowMs),
    next: await createPairs(2, nowMs),
  };
  const { public: caPem, private: keyPem } = set.previous['kubernetes-clients-ca'];
  await signer.files.writeAtomic('/keys/kubernetes-ca.crt', caPem);
  await signer.files.writeAtomic('/keys/kubernetes-ca.key', keyPem.reveal());
});

let count = 0;

async function signFor(name: string, roles: readonly Role[]) {
  const machine = new SignerMachine();
  const record = machine.record(name, roles);
  signer.put(record);
  if (roles.includes('ConsensusMember')) signer.write(signer.owner.grantWrite(record));
  const signed = await signer.sign(await signer.request(machine, { address: `192.0.2.${10 + ++count}` }));
  const issuers = [signed.kubeletClientCertificatePem, signed.kubeletServingCertificatePem].map(
    (pem) => new X509Certificate(pem).issuer,
  );
  return { machine, signed, issuers };
}

test.each([
  { name: 'a control plane', roles: CONTROL_PLANE, is: true },
  { name: 'a worker', roles: ['KubernetesWorker'] as const, is: false },
])(
  'the certificate of $name says whether the node is a control plane, according to its recorded roles',
  async (given) => {
    const { machine, signed } = await signFor('x1', given.roles);
    const certificate = new X509Certificate(signed.nodeCertificatePem);
    const verify = (): unknown => verifyControlPlaneCertificate(certificate, signer.cluster.trust);
    expect(nodeIdOf(spkiDerOf(certificate.publicKey))).toBe(machine.nodeId);
    if (given.is) expect(verify()).toMatchObject({ nodeId: machine.nodeId });
    else expect(verify).toThrow(expect.objectContaining({ code: 'pki-untrusted' }));
  },
);

test('MemberSigner uses one Kubernetes CA for client and server certificates before the first rotation', async () => {
  const { signed, issuers } = await signFor('w1', ['KubernetesWorker']);
  expect(issuers).toEqual(['CN=kubernetes clients 1', 'CN=kubernetes clients 1']);
  expect(signed.kubernetesClientsCaPem).toBe('');
  expect(signed.controlPlaneKeys).toBeUndefined();
});

test('MemberSigner uses the current client CA after a rotation and returns both trusted CAs', async () => {
  await signer.files.writeAtomic(`/keys/${ROTATION_FILE}`, encodeKeySet(set).reveal());
  const { machine, signed, issuers } = await signFor('c2', CONTROL_PLANE);
  expect(issuers).toEqual(['CN=kubernetes clients 2', 'CN=kubernetes clients 1']);
  const { previous, next } = set;
  expect(signed.kubernetesCaPem).toBe(previous['kubernetes-clients-ca'].public);
  for (const pairs of [previous, next])
    expect(signed.kubernetesClientsCaPem).toContain(pairs['kubernetes-clients-ca'].public.trim());
  expect(await signer.open(machine, signed)).toMatchObject({ [ROTATION_FILE]: encodeKeySet(set).reveal() });
  expect((await signFor('w2', ['KubernetesWorker'])).signed.controlPlaneKeys).toBeUndefined();
});

test('the kubelet serving certificate has the recorded name and the canonical address of the statement', async () => {
  const machine = new SignerMachine();
  signer.put(machine.record('w6', ['KubernetesWorker']));
  const request = await signer.request(machine, { address: '2001:DB8:0::7' });
  const { kubeletServingCertificatePem } = await signer.sign(request);
  const certificate = new X509Certificate(kubeletServingCertificatePem);
  expect(certificate.subjectAltName).toBe('DNS:w6, IP Address:2001:DB8:0:0:0:0:0:7');
});

describe('an operator that an owner has signed', () => {
  const configure = (document: object): void => {
    const text = Buffer.from(JSON.stringify(document)).toString('base64');
    const record = { version: 1, document: text, updatedMs: 1, updatedBy: 'operator:owner' } as const;
    signer.write(put(CONFIGURATION_KEY, records.configuration.encode(record)));
  };

  test.each([
    {
      name: 'is as configured',
      given: { certificates: { operatorMinutes: 6 } },
      want: 6,
    },
    { name: 'is one year by default', given: {}, want: 365 * 24 * 60 },
    {
      name: 'is a year when the setting is unreadable, so that an operator can still log in and fix it',
      given: { x: 1 },
      want: 365 * 24 * 60,
    },
  ])('gets a certificate whose validity $name', async ({ given, want }) => {
    configure({ version: 1, name: 'prod', ...CONFIGURATION, ...given });
    const request = await createCertificateRequest(signer.owner.keyPem, 'x');
    const certPem = await new MemberSigner(signer.reads).signOperator(request, never);
    const { issuedMs: madeMs, notAfterMs } = certificateTimesOf(certPem);
    expect(Math.round((notAfterMs - madeMs) / 60_000)).toBe(want);
  });
});
