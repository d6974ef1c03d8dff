/** Reads exact numbers of bytes from a stream of chunks, with at most one chunk and the requested bytes in memory. */
export class ByteReader {
  readonly #chunks: AsyncIterator<Uint8Array>;
  readonly #onEnd: (missing: number) => Error;
  #held: Buffer = Buffer.alloc(0);

  /** @param onEnd the error to throw when the stream ends too early */
  constructor(chunks: AsyncIterable<Uint8Array>, onEnd: (missing: number) => Error) {
    this.#chunks = chunks[Symbol.asyncIterator]();
    this.#onEnd = onEnd;
  }

  /** The next `count` bytes; throws the error of `onEnd` when there are fewer. */
  async take(count: number): Promise<Buffer> {
    const taken = await this.takeUpTo(count);
    if (taken.length < count) throw this.#onEnd(count - taken.length);
    return taken;
  }

  /** The next `count` bytes, or all that are left. */
  async takeUpTo(count: number): Promise<Buffer> {
    const parts: Buffer[] = [];
    let missing = count;
    while (missing > 0) {
      if (!(await this.#fill())) break;
      const part = this.#held.subarray(0, missing);
      this.#held = this.#held.subarray(part.length);
      missing -= part.length;
      parts.push(part);
    }
    return Buffer.concat(parts);
  }

  async takeU32(): Promise<number> {
    return (await this.take(4)).readUInt32BE(0);
  }

  /** Whether the stream has ended. */
  async isAtEnd(): Promise<boolean> {
    return !(await this.#fill());
  }

  /** Fetches chunks until one byte is held. Returns false at the end of the stream. */
  async #fill(): Promise<boolean> {
    while (this.#held.length === 0) {
      const next = await this.#chunks.next();
      if (next.done === true) return false;
      const { buffer, byteOffset, byteLength } = next.value;
      this.#held = Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength);
    }
    return true;
  }

  /** Closes the stream. */
  async close(): Promise<void> {
    await this.#chunks.return?.();
  }
}
