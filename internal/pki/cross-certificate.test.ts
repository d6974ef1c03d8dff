import { describe, expect, test } from '@jest/globals';
import { X509Certificate } from 'node:crypto';
import type { Secret } from '../secret/index.ts';
import { createCaCertPem } from './certificate-signer.ts';
import { createCrossCertPem, isCrossCertificate, maySignCas } from './cross-certificate.ts';
import { generateKeyPem } from './keys.ts';

const NOW = Date.UTC(2026, 5, 1);
const createCa = async (commonName: string, pathLength: 0 | 1, nowMs = NOW) => {
  const keyPem: Secret<string> = generateKeyPem();
  return { keyPem, caPem: await createCaCertPem({ commonName, keyPem, nowMs, pathLength }) };
};
const [previous, next] = [await createCa('kubernetes', 1), await createCa('kubernetes 2', 1, NOW + 1e9)];
const cross = await createCrossCertPem(next.caPem, previous, NOW + 1e9);

test('createCrossCertPem() signs name and key of the new CA with the replaced CA, for servers only, until the first of both CAs expires', () => {
  const certificate = new X509Certificate(cross);
  const [old, fresh] = [new X509Certificate(previous.caPem), new X509Certificate(next.caPem)];
  expect(certificate.subject).toBe(fresh.subject);
  expect(certificate.publicKey.equals(fresh.publicKey)).toBe(true);
  // checkIssued() compares names and key identifiers, with which clients find the issuer.
  expect([certificate.checkIssued(old), certificate.verify(old.publicKey)]).toEqual([true, true]);
  expect([certificate.ca, certificate.keyUsage, certificate.validTo]).toEqual([
    true,
    ['1.3.6.1.5.5.7.3.1'],
    old.validTo,
  ]);
});

test('createCrossCertPem() refuses a replaced CA that may not sign other CAs', async () => {
  const old = await createCa('kubernetes', 0);
  expect([await maySignCas(old.caPem), await maySignCas(previous.caPem)]).toEqual([false, true]);
  await expect(createCrossCertPem(next.caPem, old, NOW)).rejects.toThrow(RangeError);
});

describe('isCrossCertificate()', () => {
  const cas = { previousPem: previous.caPem, nextPem: next.caPem };
  test('accepts the cross-certificate of these CAs', () => {
    expect(isCrossCertificate(cross, cas)).toBe(true);
  });

  test.each([
    { name: 'text', given: () => 'text' },
    { name: 'the new CA itself', given: () => next.caPem },
    {
      name: 'a cross-certificate that another CA with the name of the replaced CA has signed',
      given: async () => createCrossCertPem(next.caPem, await createCa('kubernetes', 1), NOW),
    },
    {
      name: 'a cross-certificate for another new CA',
      given: async () => createCrossCertPem((await createCa('kubernetes 3', 1)).caPem, previous, NOW),
    },
    {
      name: 'a cross-certificate for another new CA of the same name',
      given: async () => createCrossCertPem((await createCa('kubernetes 2', 1)).caPem, previous, NOW),
    },
  ])('returns false for $name', async ({ given }) => {
    expect(isCrossCertificate(await given(), cas)).toBe(false);
  });
});
