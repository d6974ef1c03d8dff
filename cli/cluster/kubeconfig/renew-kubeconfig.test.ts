import { describe, expect, test } from '@jest/globals';
import {
  createCaCertPem,
  generateKeyPem,
  KeyCertificateSigner,
  pubKeyDerOf,
} from '../../../internal/pki/index.ts';
import { checkCertificate } from './renew-kubeconfig.ts';

async function createAuthority() {
  const keyPem = generateKeyPem();
  const caPem = await createCaCertPem({ commonName: 'kubernetes', keyPem, nowMs: Date.now() });
  return new KeyCertificateSigner({ caPem, keyPem, nowMs: () => Date.now() });
}

describe('checkCertificate()', () => {
  test('returns whether the known CA signed the certificate, and refuses a certificate for a different key', async () => {
    const [ca, other] = [await createAuthority(), await createAuthority()];
    const [keyPem, otherKey] = [generateKeyPem(), generateKeyPem()];
    const leaf = { commonName: 'owner', usages: ['client'], names: [], validDays: 1 } as const;
    const [pubKeyDer, by] = [pubKeyDerOf(keyPem), { caPem: ca.caPem, keyPem }];
    expect(checkCertificate(await ca.issue({ ...leaf, pubKeyDer }), by)).toBe(true);
    expect(checkCertificate(await other.issue({ ...leaf, pubKeyDer }), by)).toBe(false);
    const bad = [await ca.issue({ ...leaf, pubKeyDer: pubKeyDerOf(otherKey) }), 'no certificate'];
    for (const pem of bad)
      expect(() => checkCertificate(pem, by)).toThrow(
        expect.objectContaining({ code: 'cluster-result-invalid' }),
      );
  });
});
