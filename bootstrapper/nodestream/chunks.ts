/** At most so much in one message; the contract allows 64 KiB. */
const PARCEL_BYTES = 32 * 1024;

/** A part of an answer: bytes, and how many lines were lost before them. */
export interface Chunk {
  readonly data: Uint8Array;
  readonly dropped: bigint;
}

/** Whole lines, packed as tightly as a message allows. A longer line is cut: nobody waits for its end. */
export function* packLines(lines: readonly string[], dropped: number): Generator<Chunk> {
  let packed: Buffer[] = [];
  let sizeBytes = 0;
  let lost = BigInt(dropped);
  const take = (): Chunk => {
    const part = { data: new Uint8Array(Buffer.concat(packed)), dropped: lost };
    packed = [];
    sizeBytes = 0;
    lost = 0n;
    return part;
  };
  for (const line of lines) {
    const bytes = Buffer.from(`${line.replaceAll('\n', ' ')}\n`, 'utf8');
    const fitting =
      bytes.length <= PARCEL_BYTES
        ? bytes
        : Buffer.concat([bytes.subarray(0, PARCEL_BYTES - 1), Buffer.from('\n')]);
    if (sizeBytes + fitting.length > PARCEL_BYTES) yield take();
    packed.push(fitting);
    sizeBytes += fitting.length;
  }
  if (packed.length > 0) yield take();
}

/** Bytes of any length in messages. */
export function* packBytes(bytes: Uint8Array): Generator<Chunk> {
  for (let from = 0; from < bytes.length; from += PARCEL_BYTES)
    yield { data: bytes.subarray(from, from + PARCEL_BYTES), dropped: 0n };
}
