import { malformed } from './errors.ts';

/**
 * Reads the structures of TPM 2.0 Part 2 from untrusted bytes; they are big-endian, except in event logs. Each read checks how many bytes are left, and
 * `end()` refuses trailing bytes. The only error is TpmError `tpm-malformed`.
 */
export class WireReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #what: string;
  readonly #littleEndian: boolean;
  #at = 0;

  /** `what` is the name of the structure in errors. */
  constructor(bytes: Uint8Array, what: string, littleEndian = false) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#what = what;
    this.#littleEndian = littleEndian;
  }

  get offset(): number {
    return this.#at;
  }

  get remaining(): number {
    return this.#bytes.length - this.#at;
  }

  u8(field: string): number {
    return this.#view.getUint8(this.#advance(1, field));
  }

  u16(field: string): number {
    return this.#view.getUint16(this.#advance(2, field), this.#littleEndian);
  }

  u32(field: string): number {
    return this.#view.getUint32(this.#advance(4, field), this.#littleEndian);
  }

  u64(field: string): bigint {
    return this.#view.getBigUint64(this.#advance(8, field), this.#littleEndian);
  }

  /** A copy, so that later changes of the input do not change the parsed value. */
  bytes(length: number, field: string): Uint8Array {
    const start = this.#advance(length, field);
    return this.#bytes.slice(start, start + length);
  }

  /** A view of the remaining bytes, without consuming them. */
  rest(): Uint8Array {
    return this.#bytes.subarray(this.#at);
  }

  /** TPM2B: a 16-bit size, then that many bytes, at most `maxBytes`. */
  sized(field: string, maxBytes: number): Uint8Array {
    const length = this.u16(`${field} size`);
    if (length > maxBytes) throw this.fail(field, `at most ${maxBytes} bytes`, `${length} bytes`);
    return this.bytes(length, field);
  }

  /** Checks a field that has only one valid value. */
  expect(actual: number, expected: number, field: string): void {
    if (actual !== expected) throw this.fail(field, hex(expected), hex(actual));
  }

  end(): void {
    if (this.remaining !== 0) throw this.fail('the end', 'no more bytes', `${this.remaining} more`);
  }

  fail(field: string, expected: string, actual: string): Error {
    return malformed(`${this.#what}: ${field} at byte ${this.#at}: expected ${expected}, found ${actual}`, {
      structure: this.#what,
      field,
      expected,
      actual,
    });
  }

  #advance(length: number, field: string): number {
    if (length > this.remaining) throw this.fail(field, `${length} bytes`, `${this.remaining} left`);
    const start = this.#at;
    this.#at += length;
    return start;
  }
}

/**
 * Writes the structures that `WireReader` reads. Throws RangeError for a value out of range, which is a bug of the
 * caller.
 */
export class WireWriter {
  readonly #parts: Uint8Array[] = [];

  u8(value: number): this {
    return this.bytes(Uint8Array.of(inRange(value, 0xff)));
  }

  u16(value: number): this {
    const part = Buffer.alloc(2);
    part.writeUInt16BE(value);
    return this.bytes(part);
  }

  u32(value: number): this {
    const part = Buffer.alloc(4);
    part.writeUInt32BE(value);
    return this.bytes(part);
  }

  u64(value: bigint): this {
    const part = Buffer.alloc(8);
    part.writeBigUInt64BE(value);
    return this.bytes(part);
  }

  bytes(value: Uint8Array): this {
    this.#parts.push(value);
    return this;
  }

  /** TPM2B. */
  sized(value: Uint8Array): this {
    return this.u16(value.length).bytes(value);
  }

  finish(): Uint8Array {
    return new Uint8Array(Buffer.concat(this.#parts));
  }
}

/** A number in hex for messages, e.g. `0x8b`. */
export function hex(value: number): string {
  return `0x${value.toString(16)}`;
}

function inRange(value: number, max: number): number {
  if (!Number.isInteger(value) || value < 0 || value > max) throw new RangeError(`${value} > ${max}`);
  return value;
}
