/** Reads little-endian structures. The caller has checked the size: reading beyond it is a bug and throws RangeError. */
export class LittleEndianReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  u8(offset: number): number {
    return this.#view.getUint8(offset);
  }

  u16(offset: number): number {
    return this.#view.getUint16(offset, true);
  }

  u32(offset: number): number {
    return this.#view.getUint32(offset, true);
  }

  u64(offset: number): bigint {
    return this.#view.getBigUint64(offset, true);
  }

  /** A view of `length` bytes. */
  bytes(offset: number, length: number): Uint8Array {
    if (offset + length > this.#bytes.length)
      throw new RangeError(`reading ${length} bytes at ${offset}: beyond the end`);
    return this.#bytes.subarray(offset, offset + length);
  }
}

/** Whether all bytes are zero. */
export function isZero(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte === 0);
}

/** Whether both arrays have the same bytes. Not constant-time. */
export function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}

/** The bytes in lower-case hex. */
export function toHex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex');
}

/** Parses JSON. Returns undefined for invalid JSON: no schema accepts undefined. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
