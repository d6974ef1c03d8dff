import { createHash } from 'node:crypto';
import {
  contextTag,
  parseBitString,
  parseInteger,
  parseSmallInteger,
  parseTime,
  readOnly,
  TAG,
  type DerReader,
} from '../asn1/index.ts';
import { parseSignatureAlgorithm, type SignatureAlgorithm } from './algorithm.ts';
import { withX509Errors, X509Error } from './errors.ts';
import { parseExtensions, type Extensions } from './extensions.ts';
import { parseStandardExtensions, type StandardExtensions } from './standard-extensions.ts';
import { parseName, type DistinguishedName } from './name.ts';
import { parsePublicKey, type PublicKey } from './public-key.ts';

/** A parsed certificate. Not trusted until `verifyPath()`. */
export interface Certificate extends StandardExtensions {
  readonly der: Uint8Array;
  /** SHA-256 over the whole certificate, lower-case hex. */
  readonly fingerprint: string;
  readonly serial: bigint;
  readonly issuer: DistinguishedName;
  readonly subject: DistinguishedName;
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
  readonly publicKey: PublicKey;
  /** All extensions, including the standard ones. */
  readonly extensions: Extensions;
  readonly algorithm: SignatureAlgorithm;
  /** The TBSCertificate, which `signature` covers. */
  readonly signed: Uint8Array;
  readonly signature: Uint8Array;
}

const MAX_CERTIFICATE_BYTES = 16 << 10;
const MAX_SERIAL_BITS = 160;
const VERSION_3 = 2;

/** Parses an X.509 v3 certificate (RFC 5280 §4.1) without trailing bytes. Throws only X509Error. */
export function parseCertificate(der: Uint8Array): Certificate {
  if (der.length > MAX_CERTIFICATE_BYTES) {
    throw new X509Error(
      'x509-malformed',
      `reading a certificate: ${der.length} bytes, at most ${MAX_CERTIFICATE_BYTES} allowed`,
    );
  }
  return withX509Errors('reading a certificate', () =>
    readOnly(der, TAG.sequence, (reader) => {
      const { body, raw, innerAlgorithmDer } = parseSignedPart(reader);
      const { algorithm, signature } = parseSignaturePart(reader, innerAlgorithmDer);
      const fingerprint = createHash('sha256').update(der).digest('hex');
      return { der, fingerprint, signed: raw, algorithm, signature, ...body };
    }),
  );
}

/**
 * Parses the two elements after the signed part. The algorithm is inside and outside the signed part; both must be equal,
 * because the outer one is not covered by the signature (RFC 5280 §4.1.1.2).
 */
export function parseSignaturePart(
  reader: DerReader,
  innerAlgorithmDer: Uint8Array,
): { readonly algorithm: SignatureAlgorithm; readonly signature: Uint8Array } {
  const outer = reader.peekRaw();
  if (Buffer.compare(outer, innerAlgorithmDer) !== 0) {
    throw new X509Error(
      'x509-algorithm-mismatch',
      'reading a signature: its algorithm differs from the signed one',
    );
  }
  const algorithm = parseSignatureAlgorithm(reader);
  const { bytes, unusedBits } = parseBitString(reader.read(TAG.bitString));
  if (unusedBits !== 0) throw new X509Error('x509-malformed', 'reading a signature: not whole bytes');
  return { algorithm, signature: bytes };
}

function parseSignedPart(reader: DerReader) {
  const raw = reader.peekRaw();
  return reader.sequence((tbs) => {
    const version = tbs.inside(contextTag(0, 'constructed'), (tagged) =>
      parseSmallInteger(tagged.read(TAG.integer), 2),
    );
    if (version !== VERSION_3)
      throw new X509Error('x509-malformed', 'reading a certificate: not of version 3');
    const serial = parseSerial(tbs);
    const innerAlgorithmDer = tbs.read(TAG.sequence).raw;
    const issuer = parseName(tbs);
    const validity = tbs.sequence((dates) => ({
      notBeforeMs: parseTime(dates.readAny()),
      notAfterMs: parseTime(dates.readAny()),
    }));
    const subject = parseName(tbs);
    const publicKey = parsePublicKey(tbs.read(TAG.sequence).raw);
    const extensions = tbs.inside(contextTag(3, 'constructed'), parseExtensions);
    const body = { serial, issuer, ...validity, subject, publicKey, extensions };
    return { body: { ...body, ...parseStandardExtensions(extensions) }, raw, innerAlgorithmDer };
  });
}

/** Parses a serial number. RFC 5280 §4.1.2.2 requires a positive one, but AMD writes 0 into every VCEK. */
export function parseSerial(reader: DerReader): bigint {
  const serial = parseInteger(reader.read(TAG.integer));
  if (serial < 0n || serial.toString(2).length > MAX_SERIAL_BITS) {
    throw new X509Error('x509-malformed', 'reading a serial number: negative or too long');
  }
  return serial;
}
