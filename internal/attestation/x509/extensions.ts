import { DerReader, parseBoolean, parseOid, TAG } from '../asn1/index.ts';
import { X509Error } from './errors.ts';

/** An extension of a certificate or CRL. */
interface Extension {
  readonly oid: string;
  readonly critical: boolean;
  /** Content of the OCTET STRING: DER for standard extensions, raw bytes for the hardware id of AMD. */
  readonly value: Uint8Array;
}

/** Extensions by OID. */
export type Extensions = ReadonlyMap<string, Extension>;

/** OIDs of the standard extensions (RFC 5280 §4.2, §5.2). */
export const EXTENSION = {
  subjectKeyId: '2.5.29.14',
  keyUsage: '2.5.29.15',
  subjectAltName: '2.5.29.17',
  basicConstraints: '2.5.29.19',
  crlNumber: '2.5.29.20',
  crlReason: '2.5.29.21',
  authorityKeyId: '2.5.29.35',
  extendedKeyUsage: '2.5.29.37',
} as const;

const MAX_EXTENSIONS = 64;

/** Reads Extensions (RFC 5280 §4.1.2.9): at least one, no duplicates. */
export function parseExtensions(reader: DerReader): Extensions {
  return reader.sequence((list) => {
    const found = new Map<string, Extension>();
    do {
      const extension = list.sequence(parseExtension);
      if (found.has(extension.oid)) {
        throw new X509Error('x509-extension-duplicate', `reading extensions: ${extension.oid} appears twice`);
      }
      if (found.size === MAX_EXTENSIONS)
        throw new X509Error('x509-malformed', 'reading extensions: too many');
      found.set(extension.oid, extension);
    } while (!list.done);
    return found;
  });
}

/** Refuses critical extensions outside `known` (RFC 5280 §4.2). Throws X509Error `x509-extension-critical`. */
export function checkCritical(extensions: Extensions, known: readonly string[], what: string): void {
  for (const { oid, critical } of extensions.values()) {
    if (critical && !known.includes(oid)) {
      throw new X509Error(
        'x509-extension-critical',
        `verifying ${what}: unsupported critical extension ${oid}`,
      );
    }
  }
}

/** Reads an extension whose value is one DER element; undefined if it is absent. */
export function readExtension<T>(
  extensions: Extensions,
  oid: string,
  parse: (reader: DerReader) => T,
): T | undefined {
  const extension = extensions.get(oid);
  if (extension === undefined) return undefined;
  const reader = new DerReader(extension.value);
  const value = parse(reader);
  reader.end();
  return value;
}

function parseExtension(reader: DerReader): Extension {
  const oid = parseOid(reader.read(TAG.oid));
  // DER omits the default (FALSE), but manufacturers write it; the signature covers it.
  const critical = reader.nextTag === TAG.boolean && parseBoolean(reader.read(TAG.boolean));
  return { oid, critical, value: reader.read(TAG.octetString).content };
}
