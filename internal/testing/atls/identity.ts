import 'reflect-metadata';
import { X509CertificateGenerator } from '@peculiar/x509';
import { KeyObject, webcrypto } from 'node:crypto';

/** A certificate and its key for TLS in tests. */
export interface TestIdentity {
  readonly certPem: string;
  readonly keyPem: string;
}

/** A self-signed certificate for a new ECDSA key. */
export async function createTestIdentity(namedCurve: 'P-256' | 'P-384' = 'P-256'): Promise<TestIdentity> {
  const algorithm = { name: 'ECDSA', namedCurve, hash: 'SHA-256' } as const;
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const certificate = await X509CertificateGenerator.createSelfSigned({
    name: [{ CN: ['test'] }],
    notBefore: new Date(Date.UTC(2020, 0)),
    notAfter: new Date(Date.UTC(2120, 0)),
    signingAlgorithm: algorithm,
    keys,
  });
  const keyPem = KeyObject.from(keys.privateKey).export({ type: 'pkcs8', format: 'pem' });
  return { certPem: certificate.toString('pem'), keyPem: String(keyPem) };
}
