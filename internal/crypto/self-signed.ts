import { createPrivateKey, createPublicKey, webcrypto, type KeyObject } from 'node:crypto';
import { DAY_MS } from '../clock/index.ts';
import { loadX509 } from './x509-library.ts';

const YEAR_MS = 365 * DAY_MS;
const BACKDATE_MS = 5 * 60 * 1000;

/**
 * A self-signed certificate for an Ed25519 key. The certificate only carries the public key in TLS. The peer compares
 * this key with the expected key, and ignores the name and the dates.
 * @param keyPem PKCS#8 PEM of the private key
 * @returns the certificate in PEM
 */
export async function selfSignedCertificate(options: {
  readonly keyPem: string;
  readonly commonName: string;
  readonly nowMs: number;
}): Promise<string> {
  const { X509CertificateGenerator } = await loadX509();
  const privKey = createPrivateKey(options.keyPem);
  const algorithm = { name: 'Ed25519' } as const;
  const certificate = await X509CertificateGenerator.createSelfSigned(
    {
      name: [{ CN: [options.commonName] }],
      notBefore: new Date(options.nowMs - BACKDATE_MS),
      notAfter: new Date(options.nowMs + 10 * YEAR_MS),
      signingAlgorithm: algorithm,
      keys: {
        privateKey: await webKey(privKey, 'pkcs8', ['sign']),
        publicKey: await webKey(createPublicKey(privKey), 'spki', ['verify']),
      },
    },
    webcrypto,
  );
  return certificate.toString('pem');

  function webKey(
    key: KeyObject,
    format: 'pkcs8' | 'spki',
    usages: ['sign'] | ['verify'],
  ): Promise<webcrypto.CryptoKey> {
    const der = key.export({ format: 'der', type: format } as { format: 'der'; type: 'spki' });
    return webcrypto.subtle.importKey(format, new Uint8Array(der), algorithm, true, usages);
  }
}
