import { describe, expect, test } from '@jest/globals';
import { X509Certificate } from 'node:crypto';
import { createAuthorityPem, KeySigner, type LeafSpec } from './authority.ts';
import { generateKeyPem, pubKeyOf } from './keys.ts';
import { reissueCertificate } from './reissue.ts';
import { certificateTimesOf, renewalTimeOf } from './validity.ts';

const DAY_MS = 86_400_000;
const NOW = Date.UTC(2026, 5, 1);

async function createSigner(at: { nowMs: number }) {
  const keyPem = generateKeyPem();
  const caPem = await createAuthorityPem({ commonName: 'test CA', keyPem, nowMs: NOW });
  return new KeySigner({ caPem, keyPem, nowMs: () => at.nowMs });
}

describe('reissueCertificate()', () => {
  const cases: readonly {
    readonly name: string;
    readonly leaf: Omit<LeafSpec, 'pubKeyDer' | 'validDays'>;
  }[] = [
    {
      name: 'a server with names and addresses',
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
      name: 'a client of a group',
      leaf: {
        commonName: 'kubernetes-admin',
        organization: 'kubeadm:cluster-admins',
        usages: ['client'],
        names: [],
      },
    },
    { name: 'a peer', leaf: { commonName: 'peer', usages: ['server', 'client'], names: [] } },
  ];
  test.each(cases)('$name says what it said, for the same key and longer', async ({ leaf }) => {
    const at = { nowMs: NOW };
    const signer = await createSigner(at);
    const pubKeyDer = pubKeyOf(generateKeyPem());
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
  });

  test('is due at two thirds again', async () => {
    const at = { nowMs: NOW };
    const signer = await createSigner(at);
    const leaf = { commonName: 'x', usages: ['client'], names: [], validDays: 9 } as const;
    const before = await signer.issue({ ...leaf, pubKeyDer: pubKeyOf(generateKeyPem()) });
    expect(renewalTimeOf(certificateTimesOf(before))).toBe(NOW + 6 * DAY_MS);
    at.nowMs += 6 * DAY_MS;
    const after = await reissueCertificate(before, signer, 9);
    expect(renewalTimeOf(certificateTimesOf(after))).toBe(NOW + 12 * DAY_MS);
  });

  test('refuses what it could not say again', async () => {
    const signer = await createSigner({ nowMs: NOW });
    await expect(reissueCertificate(signer.caPem, signer, 1)).rejects.toThrow('without a purpose');
  });
});
