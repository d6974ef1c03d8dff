/**
 * A strict reader of DER (ITU-T X.690 §10, §11), the encoding of certificates, CRLs and signatures.
 *
 * Lengths and tags around the signed parts of evidence are not covered by a signature, and a lenient reader would
 * accept some alterations of them. This reader accepts one encoding of each value: the expected tag, the shortest
 * length, nothing after the end, no element beyond its parent, at most 16 levels.
 *
 *   bytes ──▶ DerReader ──▶ DerElement { tag, content, raw } ──▶ parseOid, parseInteger, parseTime …
 *
 * All bytes are untrusted. The only error is `Asn1Error`.
 */
export { Asn1Error } from './errors.ts';
export { DerReader, readOnly, type DerElement } from './reader.ts';
export { contextTag, TAG } from './tags.ts';
export { parseTime } from './time.ts';
export {
  parseBitString,
  parseBoolean,
  parseInteger,
  parseNull,
  parseOid,
  parseSmallInteger,
  parseText,
} from './values.ts';
