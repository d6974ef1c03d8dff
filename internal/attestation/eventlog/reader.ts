import { EventlogError } from './errors.ts';

/** Reads the little-endian records of an untrusted log. Checks every size. Throws EventlogError `eventlog-truncated`. */
export class LogReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
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
    return this.#view.getUint16(this.#advance(2, field), true);
  }

  u32(field: string): number {
    return this.#view.getUint32(this.#advance(4, field), true);
  }

  /** Returns a view. */
  bytes(length: number, field: string): Uint8Array {
    const start = this.#advance(length, field);
    return this.#bytes.subarray(start, start + length);
  }

  /** The remaining bytes, without consuming them. */
  rest(): Uint8Array {
    return this.#bytes.subarray(this.#at);
  }

  #advance(length: number, field: string): number {
    if (length > this.remaining) {
      throw new EventlogError('eventlog-truncated', `reading ${field} at byte ${this.#at} of an event log`, {
        expected: `${length} bytes`,
        actual: `${this.remaining} left`,
      });
    }
    const start = this.#at;
    this.#at += length;
    return start;
  }
}
