/** The first bytes of an object that Kubernetes stores in protobuf (k8s.io/apimachinery runtime/serializer/protobuf). */
export const STORED_PREFIX = Buffer.from('k8s\0', 'latin1');

const LENGTH_DELIMITED = 2;
/** Wire types of protobuf with a fixed length. */
const FIXED_BYTES: Readonly<Record<number, number>> = { 1: 8, 5: 4 };
const VARINT = 0;
const MAX_VARINT_BYTES = 10;

/** One field of a protobuf message. */
export interface StoredField {
  readonly number: number;
  /** The field as it is in the message. */
  readonly whole: Buffer;
  /** Empty unless the field is length-delimited. */
  readonly content: Buffer;
}

/** The content of the first field with this number; empty if there is none. */
export function contentOf(fields: readonly StoredField[], number: number): Buffer {
  return fields.find((field) => field.number === number)?.content ?? Buffer.alloc(0);
}

/** The fields of a protobuf message, in order. @throws RangeError if it is malformed */
export function fieldsOf(message: Buffer): readonly StoredField[] {
  const fields: StoredField[] = [];
  for (let at = 0; at < message.length;) {
    const tag = varintAt(message, at);
    const wire = tag.value % 8;
    let start = tag.end;
    let end = start;
    if (wire === VARINT) end = varintAt(message, start).end;
    else if (wire === LENGTH_DELIMITED) {
      const length = varintAt(message, start);
      start = length.end;
      end = start + length.value;
    } else end = start + (FIXED_BYTES[wire] ?? Number.NaN);
    if (!(end <= message.length)) throw new RangeError('a protobuf message ends within a field');
    const content = wire === LENGTH_DELIMITED ? message.subarray(start, end) : Buffer.alloc(0);
    fields.push({ number: Math.floor(tag.value / 8), whole: message.subarray(at, end), content });
    at = end;
  }
  return fields;
}

/** A length-delimited field. */
export function encodeField(number: number, content: Uint8Array): Buffer {
  return Buffer.concat([varint(number * 8 + LENGTH_DELIMITED), varint(content.length), content]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  for (let left = value; ; left = Math.floor(left / 128)) {
    bytes.push((left % 128) + (left >= 128 ? 128 : 0));
    if (left < 128) return Buffer.from(bytes);
  }
}

function varintAt(message: Buffer, from: number): { readonly value: number; readonly end: number } {
  let value = 0;
  for (let at = from; at < from + MAX_VARINT_BYTES; at++) {
    const byte = message[at];
    if (byte === undefined) break;
    value += (byte & 0x7f) * 2 ** (7 * (at - from));
    if (byte < 0x80) return { value, end: at + 1 };
  }
  throw new RangeError('a protobuf message has a malformed number');
}
