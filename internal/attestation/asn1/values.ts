import { Asn1Error } from './errors.ts';
import { TAG } from './tags.ts';
import type { DerElement } from './reader.ts';

/** Parses a BOOLEAN (X.690 §11.1): 0xff or 0x00. */
export function parseBoolean(element: DerElement): boolean {
  const [value] = element.content;
  if (element.content.length !== 1 || (value !== 0x00 && value !== 0xff)) {
    throw new Asn1Error('reading BOOLEAN: neither 0x00 nor 0xff');
  }
  return value === 0xff;
}

/** Parses an INTEGER (X.690 §8.3): two's complement with the fewest octets. */
export function parseInteger(element: DerElement): bigint {
  const { content } = element;
  const [first, second] = content;
  if (first === undefined) throw new Asn1Error('reading INTEGER: empty');
  if (second !== undefined && ((first === 0x00 && second < 0x80) || (first === 0xff && second >= 0x80))) {
    throw new Asn1Error('reading INTEGER: not in its shortest form');
  }
  const unsigned = BigInt(`0x${Buffer.from(content).toString('hex')}`);
  return first < 0x80 ? unsigned : unsigned - (1n << BigInt(content.length * 8));
}

/** Parses an INTEGER or ENUMERATED from 0 to `max`. */
export function parseSmallInteger(element: DerElement, max: number): number {
  if (element.content.length > 7) throw new Asn1Error(`reading INTEGER: more than ${max}`);
  const value = parseInteger(element);
  if (value < 0n || value > BigInt(max))
    throw new Asn1Error(`reading INTEGER: ${value}, 0 to ${max} expected`);
  return Number(value);
}

/** Parses a NULL. */
export function parseNull(element: DerElement): void {
  if (element.content.length !== 0) throw new Asn1Error('reading NULL: not empty');
}

/** Parses a BIT STRING (X.690 §11.2.1) to its octets and the number of unused bits in the last one, which must be zero. */
export function parseBitString(element: DerElement): {
  readonly bytes: Uint8Array;
  readonly unusedBits: number;
} {
  const [unusedBits] = element.content;
  const bytes = element.content.subarray(1);
  const last = bytes.at(-1) ?? 0;
  if (unusedBits === undefined || unusedBits > 7)
    throw new Asn1Error('reading BIT STRING: no count of unused bits');
  if (bytes.length === 0 && unusedBits !== 0)
    throw new Asn1Error('reading BIT STRING: empty, but with a count of unused bits');
  if ((last & ((1 << unusedBits) - 1)) !== 0) throw new Asn1Error('reading BIT STRING: unused bits not zero');
  return { bytes, unusedBits };
}

/** Parses an OBJECT IDENTIFIER (X.690 §8.19) to dotted form. Each arc has the fewest octets and at most 48 bits. */
export function parseOid(element: DerElement): string {
  const arcs: number[] = [];
  let arc = 0;
  let inside = false;
  for (const octet of element.content) {
    if (!inside && octet === 0x80)
      throw new Asn1Error('reading OBJECT IDENTIFIER: arc not in its shortest form');
    arc = arc * 128 + (octet & 0x7f);
    if (arc >= 2 ** 48) throw new Asn1Error('reading OBJECT IDENTIFIER: arc too large');
    inside = octet >= 0x80;
    if (!inside) {
      arcs.push(arc);
      arc = 0;
    }
  }
  const [first, ...rest] = arcs;
  if (first === undefined || inside) throw new Asn1Error('reading OBJECT IDENTIFIER: cut off');
  const root = Math.min(Math.floor(first / 40), 2);
  return [root, first - root * 40, ...rest].join('.');
}

const PRINTABLE = /^[A-Za-z0-9 '()+,\-./:=?]*$/;

/** Parses a string of any type that names in certificates use. */
export function parseText(element: DerElement): string {
  const { content, tag } = element;
  switch (tag) {
    case TAG.printableString:
    case TAG.ia5String:
      return asciiText(content, tag);
    case TAG.utf8String:
      return utf8Text(content);
    case TAG.teletexString:
      return Buffer.from(content).toString('latin1');
    case TAG.bmpString:
      if (content.length % 2 !== 0) throw new Asn1Error('reading BMPString: half a character');
      return Buffer.from(content).swap16().toString('utf16le');
    default:
      throw new Asn1Error(`reading text: tag 0x${tag.toString(16)} is not a string`);
  }
}

function asciiText(content: Uint8Array, tag: number): string {
  const text = Buffer.from(content).toString('latin1');
  const isRight = tag === TAG.printableString ? PRINTABLE.test(text) : content.every((octet) => octet < 0x80);
  if (!isRight) throw new Asn1Error('reading text: a character that this string type does not allow');
  return text;
}

function utf8Text(content: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(content);
  } catch (cause) {
    throw new Asn1Error('reading UTF8String: not UTF-8', { cause });
  }
}
