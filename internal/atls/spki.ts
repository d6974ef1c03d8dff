import { contextTag, readOnly, TAG, type DerReader } from '../attestation/asn1/index.ts';
import { P256_SPKI_BYTES, P256_SPKI_PREFIX } from '../crypto/index.ts';
import { AtlsError } from './errors.ts';

/**
 * Extracts the SubjectPublicKeyInfo from a certificate without decoding it. The key must be on P-256, in the only
 * canonical encoding of 91 bytes. TLS has proved that the peer holds the key.
 * @throws AtlsError `atls-tls-certificate`
 */
export function p256SpkiOf(certDer: Uint8Array): Uint8Array {
  const spki = readSpki(certDer);
  const isP256 =
    spki.length === P256_SPKI_BYTES && P256_SPKI_PREFIX.equals(spki.subarray(0, P256_SPKI_PREFIX.length));
  if (!isP256) {
    throw new AtlsError('atls-tls-certificate', 'reading a TLS certificate: its key is not P-256');
  }
  return Uint8Array.from(spki); // a copy: a view would keep the whole certificate in memory as long as the connection
}

function readSpki(certDer: Uint8Array): Uint8Array {
  try {
    return readOnly(certDer, TAG.sequence, (certificate) => {
      const spki = certificate.sequence(readSpkiOfTbs);
      skipRest(certificate);
      return spki;
    });
  } catch (cause) {
    throw new AtlsError('atls-tls-certificate', 'reading a TLS certificate', { cause });
  }
}

/** TBSCertificate, RFC 5280 §4.1: version, serial, algorithm, issuer, validity, subject, then the key. */
function readSpkiOfTbs(tbs: DerReader): Uint8Array {
  tbs.readOptional(contextTag(0, 'constructed'));
  tbs.read(TAG.integer);
  for (let field = 0; field < 4; field++) tbs.read(TAG.sequence);
  const { raw } = tbs.read(TAG.sequence);
  skipRest(tbs);
  return raw;
}

function skipRest(reader: DerReader): void {
  while (!reader.done) reader.readAny();
}
