import { webcrypto } from 'node:crypto';
import { loadX509 } from '../crypto/index.ts';
import type { Secret } from '../secret/index.ts';
import { PkiError } from './errors.ts';
import { requireSupported, webPrivateKey, webPublicKey } from './keys.ts';

const MAX_BYTES = 8192;

/**
 * Verifies that the creator of a PKCS#10 request held the private key, and returns the public key. Name, extensions and
 * attributes of the request are ignored: the signer decides what the certificate contains.
 * @param requestDer untrusted
 * @returns SubjectPublicKeyInfo, DER
 * @throws PkiError `pki-request-invalid`
 */
export async function verifyCertificateRequest(requestDer: Uint8Array): Promise<Uint8Array> {
  if (requestDer.length > MAX_BYTES)
    throw new PkiError(
      'pki-request-invalid',
      `reading a certificate request: ${requestDer.length} bytes, at most ${MAX_BYTES} allowed`,
    );
  const { Pkcs10CertificateRequest } = await loadX509();
  try {
    const request = new Pkcs10CertificateRequest(Buffer.from(requestDer));
    const pubKeyDer = new Uint8Array(request.publicKey.rawData);
    requireSupported(pubKeyDer);
    if (await request.verify(webcrypto)) return pubKeyDer;
  } catch (error) {
    throw new PkiError('pki-request-invalid', 'reading a certificate request', { cause: error });
  }
  throw new PkiError('pki-request-invalid', 'verifying a certificate request: invalid signature');
}

/** Creates a PKCS#10 request (DER), which proves possession of `keyPem`, the private key. */
export async function createCertificateRequest(
  keyPem: Secret<string>,
  commonName: string,
): Promise<Uint8Array> {
  const { Pkcs10CertificateRequestGenerator } = await loadX509();
  const privateKey = webPrivateKey(keyPem);
  const request = await Pkcs10CertificateRequestGenerator.create(
    {
      name: [{ CN: [commonName] }],
      keys: { publicKey: webPublicKey(keyPem), privateKey },
      signingAlgorithm: { ...privateKey.algorithm, hash: 'SHA-256' },
    },
    webcrypto,
  );
  return new Uint8Array(request.rawData);
}
