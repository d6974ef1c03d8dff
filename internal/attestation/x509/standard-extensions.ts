import {
  contextTag,
  parseBitString,
  parseBoolean,
  parseOid,
  parseSmallInteger,
  TAG,
  type DerReader,
} from '../asn1/index.ts';
import { X509Error } from './errors.ts';
import { EXTENSION, readExtension, type Extensions } from './extensions.ts';

/** Bit number of each key usage (RFC 5280 §4.2.1.3). */
const KEY_USAGE_BITS = {
  digitalSignature: 0,
  contentCommitment: 1,
  keyEncipherment: 2,
  dataEncipherment: 3,
  keyAgreement: 4,
  keyCertSign: 5,
  cRLSign: 6,
} as const;

/** Name of a key usage. */
type KeyUsage = keyof typeof KEY_USAGE_BITS;

/** The standard extensions that trust depends on. Parsed with the document, so that malformed ones are refused at once. */
export interface StandardExtensions {
  readonly isCa: boolean;
  /** How many CAs may be between this CA and a leaf; undefined: any number. */
  readonly pathLength: number | undefined;
  /** The allowed uses of the key (RFC 5280 §4.2.1.3); undefined: anything. */
  readonly keyUsages: ReadonlySet<KeyUsage> | undefined;
  /** OIDs of the allowed uses of the certificate; undefined: anything. */
  readonly extendedKeyUsages: readonly string[] | undefined;
  readonly subjectKeyId: Uint8Array | undefined;
  readonly authorityKeyId: Uint8Array | undefined;
}

/** Parses the standard extensions. Throws X509Error and Asn1Error. */
export function parseStandardExtensions(extensions: Extensions): StandardExtensions {
  const constraints = readExtension(extensions, EXTENSION.basicConstraints, parseBasicConstraints);
  return {
    isCa: constraints?.isCa ?? false,
    pathLength: constraints?.pathLength,
    keyUsages: readExtension(extensions, EXTENSION.keyUsage, parseKeyUsages),
    extendedKeyUsages: readExtension(extensions, EXTENSION.extendedKeyUsage, parseExtendedKeyUsages),
    subjectKeyId: readExtension(
      extensions,
      EXTENSION.subjectKeyId,
      (reader) => reader.read(TAG.octetString).content,
    ),
    authorityKeyId: parseAuthorityKeyId(extensions),
  };
}

/** The key id of the authority key identifier extension. The issuer and serial number in this extension are ignored. */
export function parseAuthorityKeyId(extensions: Extensions): Uint8Array | undefined {
  return readExtension(extensions, EXTENSION.authorityKeyId, (reader) =>
    reader.sequence((parts) => {
      const keyId = parts.readOptional(contextTag(0, 'primitive'))?.content;
      parts.readOptional(contextTag(1, 'constructed'));
      parts.readOptional(contextTag(2, 'primitive'));
      return keyId;
    }),
  );
}

/** Whether the certificate allows this use of its key. */
export function allowsUsage(certificate: StandardExtensions, usage: KeyUsage): boolean {
  return certificate.keyUsages?.has(usage) ?? true;
}

function parseBasicConstraints(reader: DerReader): {
  readonly isCa: boolean;
  readonly pathLength: number | undefined;
} {
  return reader.sequence((constraints) => {
    const isCa = constraints.nextTag === TAG.boolean && parseBoolean(constraints.read(TAG.boolean));
    const pathLength = constraints.readOptional(TAG.integer);
    if (pathLength !== undefined && !isCa) {
      throw new X509Error(
        'x509-malformed',
        'reading basic constraints: path length of a certificate that is not a CA',
      );
    }
    return { isCa, pathLength: pathLength && parseSmallInteger(pathLength, 255) };
  });
}

function parseKeyUsages(reader: DerReader): ReadonlySet<KeyUsage> {
  const { bytes } = parseBitString(reader.read(TAG.bitString));
  const isSet = (bit: number): boolean => (((bytes[bit >> 3] ?? 0) << (bit & 7)) & 0x80) !== 0;
  const usages = Object.entries(KEY_USAGE_BITS) as [KeyUsage, number][];
  return new Set(usages.filter(([, bit]) => isSet(bit)).map(([usage]) => usage));
}

function parseExtendedKeyUsages(reader: DerReader): readonly string[] {
  return reader.sequence((list) => list.all((each) => parseOid(each.read(TAG.oid))));
}
