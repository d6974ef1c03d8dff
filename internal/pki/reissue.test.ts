import 'reflect-metadata';
import { describe, expect, test } from '@jest/globals';
import { ExtendedKeyUsage, ExtendedKeyUsageExtension, X509CertificateGenerator } from '@peculiar/x509';
import { webcrypto, X509Certificate } from 'node:crypto';
import { createCaCertPem, KeyCertificateSigner, type LeafSpec } from './certificate-signer.ts';
import { generateKeyPem, pubKeyDerOf } from './keys.ts';
import { reissueCertificate } from './reissue.ts';
import { certificateTimesOf, renewalTimeOf } from './validity.ts';

const DAY_MS = 86_400_000;
const NOW = Date.UTC(2026, 5, 1);

async function createSigner(at: { nowMs: number }) {
  const keyPem = generateKeyPem();
  const caPem = await createCaCertPem({ commonName: 'test CA', keyPem, nowMs: NOW });
  return new KeyCertificateSigner({ caPem, keyPem, nowMs: () => at.nowMs });
}

describe('reissueCertificate()', () => {
  const cases: readonly {
    readonly name: string;
    readonly leaf: Omit<LeafSpec, 'pubKeyDer' | 'validDays'>;
  }[] = [
    {
      name: 'a server certificate with names and addresses',
      leaf: {
        commonName: 'kube-apiserver',
        usages: ['server'],
        names: [
          { type: 'dns', value: 'kubernetes.default.svc' },
          { type: 'ip', value: '198.19.128.1' },
          { type: 'ip', value: '2001:db8::1' },
          { type: 'url', value: 'cluster://blue/node/n1' },
        ],
      },
    },
    {
      name: 'a client certificate of a group',
      leaf: {
        commonName: 'kubernetes-admin',
        organization: 'kubeadm:cluster-admins',
        usages: ['client'],
        names: [],
      },
    },
    {
      name: 'a peer certificate (server and client)',
      leaf: { commonName: 'peer', usages: ['server', 'client'], names: [] },
    },
  ];
  test.each(cases)(
    'keeps key, subject, usages and names of $name, and extends its validity',
    async ({ leaf }) => {
      const at = { nowMs: NOW };
      const signer = await createSigner(at);
      const pubKeyDer = pubKeyDerOf(generateKeyPem());
      const before = await signer.issue({ ...leaf, pubKeyDer, validDays: 10 });
      at.nowMs += 8 * DAY_MS;
      const after = await reissueCertificate(before, signer, 10);
      const [was, is] = [new X509Certificate(before), new X509Certificate(after)];
      expect([is.subject, is.subjectAltName, is.keyUsage]).toEqual([
        was.subject,
        was.subjectAltName,
        was.keyUsage,
      ]);
      expect(is.publicKey.equals(was.publicKey)).toBe(true);
      expect(is.serialNumber).not.toBe(was.serialNumber);
      expect(Date.parse(is.validTo)).toBe(at.nowMs + 10 * DAY_MS);
    },
  );

  test('the new certificate is due for renewal after two thirds of its own lifetime', async () => {
    const at = { nowMs: NOW };
    const signer = await createSigner(at);
    const leaf = { commonName: 'x', usages: ['client'], names: [], validDays: 9 } as const;
    const before = await signer.issue({ ...leaf, pubKeyDer: pubKeyDerOf(generateKeyPem()) });
    expect(renewalTimeOf(certificateTimesOf(before))).toBe(NOW + 6 * DAY_MS);
    at.nowMs += 6 * DAY_MS;
    const after = await reissueCertificate(before, signer, 9);
    expect(renewalTimeOf(certificateTimesOf(after))).toBe(NOW + 12 * DAY_MS);
  });

  test.each([
    {
      name: 'accepts a subject in the order of kubeadm (O before CN)',
      subject: 'O=kubeadm:cluster-admins, CN=client',
      want: 'fine',
    },
    {
      name: 'refuses a subject with an unknown attribute',
      subject: 'CN=client, OU=more',
      want: 'unsupported subject',
    },
    { name: 'refuses a subject with two organizations', subject: 'O=a, O=b, CN=client', want: 'several O' },
    { name: 'refuses a subject without a common name', subject: 'O=a', want: 'no common name' },
  ])('$name', async ({ subject, want }) => {
    const signer = await createSigner({ nowMs: NOW });
    const keys = await webcrypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, [
      'sign',
      'verify',
    ]);
    const certificate = await X509CertificateGenerator.createSelfSigned(
      {
        name: subject,
        keys,
        signingAlgorithm: { name: 'ECDSA', hash: 'SHA-256' },
        extensions: [new ExtendedKeyUsageExtension([ExtendedKeyUsage.clientAuth])],
      },
      webcrypto,
    );
    const said = await reissueCertificate(certificate.toString('pem'), signer, 1).then(
      () => 'fine',
      (error: unknown) => String(error),
    );
    expect(said).toContain(want);
  });

  test('refuses a certificate without extended key usage', async () => {
    const signer = await createSigner({ nowMs: NOW });
    await expect(reissueCertificate(signer.caPem, signer, 1)).rejects.toThrow('no extended key usage');
  });
});
