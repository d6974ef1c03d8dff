import 'reflect-metadata';
import { Pkcs10CertificateRequest, Pkcs10CertificateRequestGenerator } from '@peculiar/x509';
import { createPrivateKey, webcrypto } from 'node:crypto';
import type { Secret } from '../secret/index.ts';
import { PkiError } from './errors.ts';
import { algorithmOf, pubKeyDerOf, webPrivateKey, webPublicKey } from './keys.ts';

const MAX_BYTES = 8192;

/**
 * The public key of a PKCS#10 request whose sender proved to hold the private one. Name, extensions and attributes are
 * the sender's wishes and are ignored: what a certificate says is decided by whoever signs.
 * @param requestDer from a stranger
 * @returns SubjectPublicKeyInfo, DER
 */
export async function verifyCertificateRequest(requestDer: Uint8Array): Promise<Uint8Array> {
  if (requestDer.length > MAX_BYTES)
    throw new PkiError('pki-request-invalid', `reading a certificate request: ${requestDer.length} bytes`);
  try {
    const request = new Pkcs10CertificateRequest(Buffer.from(requestDer));
    const pubKeyDer = new Uint8Array(request.publicKey.rawData);
    await webPublicKey(pubKeyDer); // refuses algorithms that we don't sign for
    if (await request.verify(webcrypto)) return pubKeyDer;
  } catch (error) {
    throw new PkiError('pki-request-invalid', 'reading a certificate request', { cause: error });
  }
  throw new PkiError('pki-request-invalid', 'verifying a certificate request: its signature is wrong');
}

/** A PKCS#10 request for a key, DER: proof of possession and nothing else. */
export async function createCertificateRequest(
  keyPem: Secret<string>,
  commonName: string,
): Promise<Uint8Array> {
  const request = await Pkcs10CertificateRequestGenerator.create(
    {
      name: [{ CN: [commonName] }],
      keys: { publicKey: await webPublicKey(pubKeyDerOf(keyPem)), privateKey: await webPrivateKey(keyPem) },
      signingAlgorithm: algorithmOf(createPrivateKey(keyPem.reveal())),
    },
    webcrypto,
  );
  return new Uint8Array(request.rawData);
}
