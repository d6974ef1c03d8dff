import { expect, test } from '@jest/globals';
import { X509Certificate } from 'node:crypto';
import { certificatesIn, hasCertificate, isIssuedByOneOf, issuerIn } from './ca-bundle.ts';
import { createCaCertPem, KeyCertificateSigner } from './certificate-signer.ts';
import { generateKeyPem, pubKeyDerOf } from './keys.ts';
import { nodeLeaf, verifyMemberCertificate } from './member-certificate.ts';

const NOW = Date.UTC(2026, 5, 1);
const clusterId = 'c0ffee';

/** Three CAs with the same name, because an attacker would give a forged CA the name of ours. */
const [previous, next, other] = await Promise.all([1, 2, 3].map(() => createSigner()));

async function createSigner(): Promise<KeyCertificateSigner> {
  const keyPem = generateKeyPem();
  const caPem = await createCaCertPem({ commonName: 'cluster', keyPem, nowMs: NOW });
  return new KeyCertificateSigner({ caPem, keyPem, nowMs: () => NOW });
}

async function issuedBy(signer: KeyCertificateSigner | undefined): Promise<X509Certificate> {
  if (signer === undefined) throw new TypeError('a signer expected');
  const leaf = nodeLeaf({ clusterId, pubKeyDer: pubKeyDerOf(generateKeyPem()), addresses: [] });
  return new X509Certificate(await signer.issue(leaf));
}

const bundle = `${previous?.caPem}\n${next?.caPem}`;

test('verifyMemberCertificate() accepts certificates of each CA in a bundle, and of no other CA', async () => {
  const trust = { caPem: bundle, clusterId, nowMs: () => NOW };
  for (const signer of [previous, next])
    expect(verifyMemberCertificate(await issuedBy(signer), trust)).toMatchObject({ kind: 'node' });
  const forged = await issuedBy(other);
  expect(() => verifyMemberCertificate(forged, trust)).toThrow(
    expect.objectContaining({ code: 'pki-untrusted' }),
  );
  expect(isIssuedByOneOf(forged, bundle)).toBe(false);
});

test('issuerIn() returns the CA that signed the certificate, and not another CA of the same name', async () => {
  expect(issuerIn(await issuedBy(next), bundle)?.trim()).toBe(next?.caPem.trim());
  expect(issuerIn(await issuedBy(next), '')).toBeUndefined();
});

test('hasCertificate() ignores white space between certificates', () => {
  expect(certificatesIn(bundle)).toHaveLength(2);
  expect(hasCertificate(bundle, `\n${next?.caPem}\n\n`)).toBe(true);
  expect(hasCertificate(bundle, other?.caPem ?? '')).toBe(false);
});
