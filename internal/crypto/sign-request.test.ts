import { describe, expect, test } from '@jest/globals';
import 'reflect-metadata';
import { Pkcs10CertificateRequestGenerator } from '@peculiar/x509';
import { generateKeyPairSync, webcrypto, X509Certificate } from 'node:crypto';
import { Secret } from '../secret/index.ts';
import { selfSignedCertificate } from './self-signed.ts';
import { signClientCertificate } from './sign-request.ts';

const nowMs = Date.UTC(2026, 0, 1);
const DAY_MS = 24 * 60 * 60 * 1000;

async function createRequest(): Promise<Uint8Array> {
  const keys = (await webcrypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, [
    'sign',
    'verify',
  ])) as webcrypto.CryptoKeyPair;
  const request = await Pkcs10CertificateRequestGenerator.create({
    name: 'CN=system:masters',
    keys,
    signingAlgorithm: { name: 'ECDSA', hash: 'SHA-256' },
  });
  return new Uint8Array(request.rawData);
}

async function createIssuer() {
  const keyPem = generateKeyPairSync('ed25519')
    .privateKey.export({ format: 'pem', type: 'pkcs8' })
    .toString();
  return {
    certPem: await selfSignedCertificate({ keyPem, commonName: 'test CA', nowMs }),
    keyPem: new Secret(keyPem),
  };
}

describe('signClientCertificate()', () => {
  test('signs the key of the request under the name that the issuer chose', async () => {
    const issuer = await createIssuer();
    const pem = await signClientCertificate(issuer, {
      requestDer: await createRequest(),
      commonName: 'owner',
      organization: 'admins',
      notAfterMs: nowMs + DAY_MS,
      nowMs,
    });
    const certificate = new X509Certificate(pem);
    expect(certificate.subject).toBe('O=admins\nCN=owner');
    expect(certificate.verify(new X509Certificate(issuer.certPem).publicKey)).toBe(true);
    expect(certificate.ca).toBe(false);
  });

  test('signs no other key, whichever byte of the request is changed', async () => {
    const issuer = await createIssuer();
    const request = await createRequest();
    const sign = (requestDer: Uint8Array): Promise<string> =>
      signClientCertificate(issuer, { requestDer, commonName: 'owner', notAfterMs: nowMs + DAY_MS, nowMs });
    const honest = new X509Certificate(await sign(request)).publicKey;
    let refused = 0;
    for (let at = 0; at < request.length; at++) {
      const changed = Uint8Array.from(request, (byte, index) => (index === at ? byte ^ 1 : byte));
      const outcome = await sign(changed).catch((error: unknown) => error);
      // The encoding of the signature's algorithm is not signed; a change there changes nothing that is.
      if (typeof outcome === 'string')
        expect(new X509Certificate(outcome).publicKey.equals(honest)).toBe(true);
      else expect(outcome).toMatchObject({ code: 'crypto-request-invalid' });
      if (typeof outcome !== 'string') refused++;
    }
    expect(refused).toBeGreaterThan(request.length - 8);
  });
});
