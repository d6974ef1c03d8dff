/** Maximum size of a chunk; the contract allows 64 KiB. */
const CHUNK_BYTES = 32 * 1024;

/** A part of a result: bytes, and how many lines were dropped before them. */
export interface Chunk {
  readonly data: Uint8Array;
  readonly dropped: bigint;
}

/** Packs whole lines into chunks. A line that is longer than a chunk is cut. */
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
      bytes.length <= CHUNK_BYTES
        ? bytes
        : Buffer.concat([bytes.subarray(0, CHUNK_BYTES - 1), Buffer.from('\n')]);
    if (sizeBytes + fitting.length > CHUNK_BYTES) yield take();
    packed.push(fitting);
    sizeBytes += fitting.length;
  }
  if (packed.length > 0) yield take();
}

/** Splits bytes into chunks. */
export function* packBytes(bytes: Uint8Array): Generator<Chunk> {
  for (let from = 0; from < bytes.length; from += CHUNK_BYTES)
    yield { data: bytes.subarray(from, from + CHUNK_BYTES), dropped: 0n };
}

/** Collects small pieces of a stream into chunks of full size, so that each costs one message. */
export async function* packStream(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Chunk> {
  let held: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const piece of pieces) {
    held.push(piece);
    sizeBytes += piece.length;
    if (sizeBytes < CHUNK_BYTES) continue;
    const all = new Uint8Array(Buffer.concat(held));
    const whole = sizeBytes - (sizeBytes % CHUNK_BYTES);
    yield* packBytes(all.subarray(0, whole));
    held = [all.subarray(whole)];
    sizeBytes -= whole;
  }
  yield* packBytes(new Uint8Array(Buffer.concat(held)));
}
