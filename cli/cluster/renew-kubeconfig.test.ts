import { describe, expect, test } from '@jest/globals';
import { createAuthorityPem, generateKeyPem, KeySigner, pubKeyOf } from '../../internal/pki/index.ts';
import { checkCertificate } from './renew-kubeconfig.ts';

async function createAuthority() {
  const keyPem = generateKeyPem();
  const caPem = await createAuthorityPem({ commonName: 'kubernetes', keyPem, nowMs: Date.now() });
  return new KeySigner({ caPem, keyPem, nowMs: () => Date.now() });
}

describe('checkCertificate()', () => {
  test('takes what the known CA signed for the new key, and nothing else', async () => {
    const [ca, other] = [await createAuthority(), await createAuthority()];
    const [keyPem, otherKey] = [generateKeyPem(), generateKeyPem()];
    const leaf = { commonName: 'owner', usages: ['client'], names: [], validDays: 1 } as const;
    const good = await ca.issue({ ...leaf, pubKeyDer: pubKeyOf(keyPem) });
    const by = { caPem: ca.caPem, keyPem };
    expect(() => checkCertificate(good, by)).not.toThrow();
    const bad = [
      await other.issue({ ...leaf, pubKeyDer: pubKeyOf(keyPem) }),
      await ca.issue({ ...leaf, pubKeyDer: pubKeyOf(otherKey) }),
      'no certificate',
    ];
    for (const pem of bad)
      expect(() => checkCertificate(pem, by)).toThrow(
        expect.objectContaining({ code: 'cluster-result-invalid' }),
      );
  });
});
