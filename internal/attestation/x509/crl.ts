import {
  contextTag,
  parseInteger,
  parseSmallInteger,
  parseTime,
  readOnly,
  TAG,
  type DerReader,
} from '../asn1/index.ts';
import type { SignatureAlgorithm } from './algorithm.ts';
import { parseSerial, parseSignaturePart, type Certificate } from './certificate.ts';
import { datesOf, withX509Errors, X509Error } from './errors.ts';
import { checkCritical, EXTENSION, parseExtensions, readExtension } from './extensions.ts';
import { allowsUsage, parseAuthorityKeyId } from './standard-extensions.ts';
import { describeName, type DistinguishedName, isIssuer, parseName } from './name.ts';
import { verifySignature } from './signature.ts';

/** A parsed certificate revocation list (CRL). Not trusted until `verifyCrl()`. */
export interface Crl {
  readonly issuer: DistinguishedName;
  readonly thisUpdateMs: number;
  readonly nextUpdateMs: number;
  /** The CRL number; undefined if the CRL has none. */
  readonly number: bigint | undefined;
  readonly revoked: ReadonlySet<bigint>;
  readonly authorityKeyId: Uint8Array | undefined;
  readonly algorithm: SignatureAlgorithm;
  readonly signed: Uint8Array;
  readonly signature: Uint8Array;
}

const MAX_CRL_BYTES = 4 << 20;
const VERSION_2 = 1;

/**
 * Parses an X.509 v2 CRL (RFC 5280 §5.1) without trailing bytes. Delta and indirect CRLs are refused because of their critical
 * extension. Throws only X509Error.
 */
export function parseCrl(der: Uint8Array): Crl {
  if (der.length > MAX_CRL_BYTES)
    throw new X509Error(
      'x509-malformed',
      `reading a CRL: ${der.length} bytes, at most ${MAX_CRL_BYTES} allowed`,
    );
  return withX509Errors('reading a CRL', () =>
    readOnly(der, TAG.sequence, (reader) => {
      const signed = reader.peekRaw();
      const { innerAlgorithmDer, ...body } = reader.sequence(parseList);
      return { ...body, ...parseSignaturePart(reader, innerAlgorithmDer), signed };
    }),
  );
}

/** Checks that `issuer`, which must have been verified, issued this CRL and that it is current. Throws X509Error. */
export function verifyCrl(crl: Crl, issuer: Certificate, atMs: number): void {
  const what = `the CRL of ${describeName(crl.issuer)}`;
  if (!isIssuer(crl, issuer)) {
    throw new X509Error(
      'x509-crl-issuer',
      `verifying ${what}: not issued by ${describeName(issuer.subject)}`,
    );
  }
  if (!allowsUsage(issuer, 'cRLSign')) {
    throw new X509Error('x509-key-usage', `verifying ${what}: its issuer may not sign CRLs`);
  }
  verifySignature(crl, issuer.publicKey, what);
  if (atMs < crl.thisUpdateMs)
    throw new X509Error('x509-crl-not-yet-valid', `verifying ${what}: its issue date is in the future`, {
      details: datesOf('from', crl.thisUpdateMs, atMs),
    });
  if (atMs > crl.nextUpdateMs)
    throw new X509Error('x509-crl-expired', `verifying ${what}: expired`, {
      details: datesOf('until', crl.nextUpdateMs, atMs),
    });
}

/** Throws X509Error `x509-revoked` if the CRL, which must have been verified, lists the certificate. */
export function checkNotRevoked(certificate: Certificate, crl: Crl): void {
  if (Buffer.compare(certificate.issuer.der, crl.issuer.der) !== 0) {
    throw new X509Error(
      'x509-crl-issuer',
      `checking revocation of ${describeName(certificate.subject)}: the CRL was issued by another CA`,
    );
  }
  if (crl.revoked.has(certificate.serial)) {
    throw new X509Error(
      'x509-revoked',
      `checking revocation of ${describeName(certificate.subject)}: revoked by its issuer`,
    );
  }
}

function parseList(list: DerReader) {
  if (parseSmallInteger(list.read(TAG.integer), VERSION_2) !== VERSION_2) {
    throw new X509Error('x509-malformed', 'reading a CRL: not of version 2');
  }
  const innerAlgorithmDer = list.read(TAG.sequence).raw;
  const issuer = parseName(list);
  const thisUpdateMs = parseTime(list.readAny());
  const nextUpdateMs = parseTime(list.readAny());
  const serials =
    list.insideOptional(TAG.sequence, (entries) => entries.all((each) => each.sequence(parseEntry))) ?? [];
  const extensions = list.inside(contextTag(0, 'constructed'), parseExtensions);
  checkCritical(extensions, [EXTENSION.crlNumber, EXTENSION.authorityKeyId], 'a CRL');
  return {
    innerAlgorithmDer,
    issuer,
    thisUpdateMs,
    nextUpdateMs,
    revoked: new Set(serials),
    number: readExtension(extensions, EXTENSION.crlNumber, (value) => parseInteger(value.read(TAG.integer))),
    authorityKeyId: parseAuthorityKeyId(extensions),
  };
}

/** Every entry revokes, whatever its reason: `removeFromCRL` exists only in delta CRLs, which are refused. */
function parseEntry(entry: DerReader): bigint {
  const serial = parseSerial(entry);
  parseTime(entry.readAny());
  if (!entry.done) checkCritical(parseExtensions(entry), [EXTENSION.crlReason], 'a CRL entry');
  return serial;
}
