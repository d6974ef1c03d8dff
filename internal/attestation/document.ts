import { lengthPrefixed } from '../crypto/index.ts';
import type { ErrorCatalogue } from '../errors/index.ts';
import { AttestationError } from './errors.ts';

/**
 * The format of this project's evidence documents:
 *
 *   magic[4] | version u8 = 1 | parts u8 | parts × (length u32 BE | bytes)
 *
 * The same parts have exactly one encoding: nothing is optional, nothing follows the last part.
 */
export interface DocumentFormat<Code extends string> {
  readonly magic: string;
  readonly maxParts: number;
  readonly catalogue: ErrorCatalogue<Code>;
  readonly malformed: Code;
}

const VERSION = 1;
const HEADER_BYTES = 6;

/** Encodes a document. */
export function encodeDocument(magic: string, parts: readonly Uint8Array[]): Uint8Array {
  const header = [Buffer.from(magic, 'ascii'), Buffer.of(VERSION, parts.length)];
  return new Uint8Array(Buffer.concat([...header, lengthPrefixed(...parts)]));
}

/** Whether these bytes start with a magic. The raw formats of manufacturers never do. */
export function hasMagic(bytes: Uint8Array, magic: string): boolean {
  return Buffer.from(bytes.subarray(0, magic.length)).toString('latin1') === magic;
}

/**
 * Decodes an untrusted document to its parts, which are views. Throws AttestationError with the code
 * `format.malformed`.
 */
export function decodeDocument<Code extends string>(
  bytes: Uint8Array,
  format: DocumentFormat<Code>,
): Uint8Array[] {
  const malformed = (what: string): Error =>
    new AttestationError(format.catalogue, format.malformed, `reading evidence ${format.magic}: ${what}`, {
      actual: what,
    });
  if (bytes.length < HEADER_BYTES || !hasMagic(bytes, format.magic)) throw malformed('wrong magic');
  const count = bytes[5] ?? 0;
  if (bytes[4] !== VERSION) throw malformed(`version ${bytes[4]}`);
  if (count === 0 || count > format.maxParts) throw malformed(`${count} parts`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const parts: Uint8Array[] = [];
  let at = HEADER_BYTES;
  for (let index = 0; index < count; index++) {
    if (bytes.length - at < 4) throw malformed('truncated');
    const length = view.getUint32(at);
    at += 4;
    if (length > bytes.length - at) throw malformed('a part longer than the document');
    parts.push(bytes.subarray(at, at + length));
    at += length;
  }
  if (at !== bytes.length) throw malformed(`${bytes.length - at} extra bytes`);
  return parts;
}
