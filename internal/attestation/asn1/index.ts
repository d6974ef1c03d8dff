/**
 * A strict reader of DER (ITU-T X.690 §10, §11), the encoding of certificates, CRLs and signatures.
 *
 * Evidence carries bytes outside any signature: the lengths and tags around the signed parts. A lenient reader
 * would accept some of them altered. This one reads exactly one encoding of every value: the expected tag, the
 * shortest length, nothing after the end, no element beyond its parent, at most 16 levels.
 *
 *   bytes ──▶ DerReader ──▶ DerElement { tag, content, raw } ──▶ parseOid, parseInteger, parseTime …
 *
 * All bytes are the attacker's. Whatever is wrong with them is an `Asn1Error`, nothing else is ever thrown.
 */
export { Asn1Error, asn1Errors, type Asn1ErrorCode } from './errors.ts';
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
