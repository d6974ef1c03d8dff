import { describe, expect, test } from '@jest/globals';
import { X509Certificate } from 'node:crypto';
import { dirname } from 'node:path';
import {
  certificateTimesOf,
  createCaCertPem,
  createCertificateRequest,
  fingerprintOfKey,
  generateKeyPem,
  KeyCertificateSigner,
  spkiDerOf,
} from '../../internal/pki/index.ts';
import { MemoryFiles } from '../../internal/testing/host/memory-files.ts';
import type { Membership } from '../membership/index.ts';
import type { InitRecord } from '../initserver/index.ts';
import { PATHS, ROTATED_FILES } from '../kubernetes/index.ts';
import { buildInitOutcome } from './init-outcome.ts';

const membership = {
  ...{ clusterId: 'a'.repeat(32), clusterName: 'blue', nodeId: 'node-1', nodeName: 'n1' },
  ...{ nodeAddress: '198.18.0.11', nodeCertPem: '', clusterCaPem: 'ca', epoch: 1, directory: [] },
} satisfies Membership;

async function build(configuration: string, files = new MemoryFiles()) {
  const nowMs = (): number => Date.UTC(2026, 0, 1);
  const keyPem = generateKeyPem();
  const caPem = await createCaCertPem({ commonName: 'kubernetes', keyPem, nowMs: nowMs() });
  await files.makeDirectory(PATHS.pki);
  await files.writeAtomic(`${PATHS.pki}/ca.crt`, caPem);
  await files.writeAtomic(`${PATHS.pki}/ca.key`, keyPem.reveal());
  const csr = Buffer.from(await createCertificateRequest(generateKeyPem(), 'x')).toString('base64');
  const spec = { configuration, kubernetesAdminCsrBase64: csr, ownerCsrBase64: csr };
  const authority = new KeyCertificateSigner({ caPem, keyPem, nowMs });
  return buildInitOutcome({ files, authority, nowMs }, { initId: 'one', spec } as InitRecord, membership);
}

describe('buildInitOutcome()', () => {
  test('names the key of the owner in the certificate of the administrator, so that API servers look it up', async () => {
    const { kubernetesAdminCertPem } = await build('{}');
    const { subject, publicKey } = new X509Certificate(kubernetesAdminCertPem);
    // In this test, both requests are for the same key.
    expect(subject.split('\n')).toEqual([
      'CN=owner',
      'O=kubeadm:cluster-admins',
      `1.3.6.1.4.1.57683.2=${fingerprintOfKey(spkiDerOf(publicKey))}`,
    ]);
  });

  test('contains the endpoint of this node’s API server', async () => {
    expect((await build('{}')).apiEndpoints).toEqual(['198.18.0.11:6443']);
  });

  test('issues certificates with the lifetime of the configuration', async () => {
    for (const [configuration, minutes] of [
      ['{"certificates":{"operatorMinutes":6}}', 6],
      ['{}', 365 * 24 * 60],
    ] as const) {
      const { ownerCertPem, kubernetesAdminCertPem } = await build(configuration);
      for (const { issuedMs: madeMs, notAfterMs } of [ownerCertPem, kubernetesAdminCertPem].map(
        certificateTimesOf,
      ))
        expect(Math.round((notAfterMs - madeMs) / 60_000)).toBe(minutes);
    }
  });

  test('signs the certificate of the administrator with the CA of clients after a rotation', async () => {
    const keyPem = generateKeyPem();
    const caPem = await createCaCertPem({
      commonName: 'kubernetes-clients-2',
      keyPem,
      nowMs: Date.UTC(2026, 0, 1),
    });
    const files = new MemoryFiles();
    await files.makeDirectory(dirname(ROTATED_FILES.issuerCert));
    await files.writeAtomic(ROTATED_FILES.issuerCert, caPem);
    await files.writeAtomic(ROTATED_FILES.issuerKey, keyPem.reveal());
    const outcome = await build('{}', files);
    expect(outcome.kubernetesClientsCaPem).toBe(caPem);
    const admin = new X509Certificate(outcome.kubernetesAdminCertPem);
    expect(admin.verify(new X509Certificate(caPem).publicKey)).toBe(true);
    expect(admin.verify(new X509Certificate(outcome.kubernetesCaPem).publicKey)).toBe(false);
    expect((await build('{}')).kubernetesClientsCaPem).toBeUndefined();
  });

  test('names the load balancer of the operator first, which kubeconfigs use', async () => {
    const configuration = '{"apiServer":{"endpoint":"api.example.test:443"}}';
    expect((await build(configuration)).apiEndpoints).toEqual(['api.example.test:443', '198.18.0.11:6443']);
  });
});
