import 'reflect-metadata';
import {
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  Pkcs10CertificateRequest,
  X509Certificate,
  X509CertificateGenerator,
} from '@peculiar/x509';
import { createPrivateKey, randomBytes, webcrypto } from 'node:crypto';
import type { Secret } from '../secret/index.ts';
import { CryptoError } from './errors.ts';

const BACKDATE_MS = 5 * 60 * 1000;

/** What a certificate for a request says. Nothing of it comes from the request but the public key. */
export interface RequestedCertificate {
  /** PKCS#10 in DER (RFC 2986). */
  readonly requestDer: Uint8Array;
  readonly commonName: string;
  readonly organization?: string;
  readonly notAfterMs: number;
  readonly nowMs: number;
}

export interface Issuer {
  readonly certPem: string;
  /** PKCS#8 or PKCS#1 in PEM: RSA, ECDSA P-256 or Ed25519. */
  readonly keyPem: Secret<string>;
}

/**
 * Signs a client certificate for the key of a certificate request, after the request proved possession of the key.
 * @returns the certificate in PEM
 * @throws CryptoError `crypto-request-invalid`
 */
export async function signClientCertificate(issuer: Issuer, wanted: RequestedCertificate): Promise<string> {
  const request = await provedRequest(wanted.requestDer);
  const issuerCertificate = new X509Certificate(issuer.certPem);
  const signing = await signingKey(issuer.keyPem.reveal());
  const certificate = await X509CertificateGenerator.create(
    {
      serialNumber: positiveSerial(),
      subject: [
        ...(wanted.organization === undefined ? [] : [{ O: [wanted.organization] }]),
        { CN: [wanted.commonName] },
      ],
      issuer: issuerCertificate.subjectName,
      notBefore: new Date(wanted.nowMs - BACKDATE_MS),
      notAfter: new Date(wanted.notAfterMs),
      publicKey: request.publicKey,
      signingKey: signing.key,
      signingAlgorithm: signing.algorithm,
      extensions: [
        new BasicConstraintsExtension(false, undefined, true),
        new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
        new ExtendedKeyUsageExtension([ExtendedKeyUsage.clientAuth]),
      ],
    },
    crypto,
  );
  return certificate.toString('pem');
}

const crypto = webcrypto as never;

async function provedRequest(requestDer: Uint8Array): Promise<Pkcs10CertificateRequest> {
  try {
    const request = new Pkcs10CertificateRequest(new Uint8Array(requestDer));
    if (await request.verify(crypto)) return request;
  } catch (error) {
    throw new CryptoError('crypto-request-invalid', 'reading a certificate request', { cause: error });
  }
  throw new CryptoError(
    'crypto-request-invalid',
    'checking a certificate request: its signature is not by its own key',
  );
}

/** RFC 5280 §4.1.2.2: positive, at most 20 octets. */
function positiveSerial(): string {
  const serial = randomBytes(16);
  serial[0] = ((serial[0] ?? 0) & 0x7f) | 0x40;
  return serial.toString('hex');
}

async function signingKey(
  keyPem: string,
): Promise<{ key: webcrypto.CryptoKey; algorithm: { name: string; hash?: string } }> {
  const key = createPrivateKey(keyPem);
  const der = new Uint8Array(key.export({ format: 'der', type: 'pkcs8' }));
  const importKey = (
    algorithm: webcrypto.AlgorithmIdentifier | webcrypto.RsaHashedImportParams | webcrypto.EcKeyImportParams,
  ): Promise<webcrypto.CryptoKey> => webcrypto.subtle.importKey('pkcs8', der, algorithm, false, ['sign']);
  switch (key.asymmetricKeyType) {
    case 'rsa': {
      const algorithm = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' };
      return { key: await importKey(algorithm), algorithm };
    }
    case 'ec': {
      const namedCurve = key.asymmetricKeyDetails?.namedCurve === 'secp384r1' ? 'P-384' : 'P-256';
      return {
        key: await importKey({ name: 'ECDSA', namedCurve }),
        algorithm: { name: 'ECDSA', hash: 'SHA-256' },
      };
    }
    case 'ed25519':
      return { key: await importKey({ name: 'Ed25519' }), algorithm: { name: 'Ed25519' } };
    default:
      throw new TypeError(`no signing with a key of type ${String(key.asymmetricKeyType)}`);
  }
}
