import type { Clock } from '../../internal/clock/index.ts';

const MIB = 1024 ** 2;
/**
 * How fast a backup reads a database. Nobody waits for a scheduled backup, and the etcd and the API server on the same machine
 * must not wait for it either: with two processors, a database of 1 GiB made the slowest hundredth of all API calls four times as slow
 * without a limit, 1.6 times at 8 MiB a second, and 1.2 times at 5 (`npm run bench -- backup`).
 */
const DATABASE_RATE = 4 * MIB;
/**
 * A larger database is read faster. Every five minutes the API server compacts its etcd to the revision of five minutes before, so each
 * revision can be read for at least that long. The snapshot and the objects are read one after the other, each at a revision of its own.
 */
const DATABASE_SECONDS = 250;
/** How fast a backup file is read back. That costs etcd nothing. */
export const FILE_RATE = 8 * MIB;
/** Shorter delays would cost more than they save. */
const MIN_SLEEP_MS = 20;
/** The processor time of a chunk hardly depends on its size, and etcd sends chunks of 32 KiB. */
const BLOCK_BYTES = 512 * 1024;

/** How many bytes a second a backup reads of a database of this size. */
export function databaseRate(sizeBytes: number): number {
  return Math.max(DATABASE_RATE, sizeBytes / DATABASE_SECONDS);
}

/** The speed of `paced()`. */
export interface Pace {
  readonly bytesPerSecond: number;
  readonly clock: Pick<Clock, 'monotonicMs' | 'sleep'>;
  readonly signal: AbortSignal;
}

/** Passes items on, at most so many bytes a second on average since the first one. */
export async function* paced<T>(
  items: AsyncIterable<T>,
  bytesOf: (item: T) => number,
  { bytesPerSecond, clock, signal }: Pace,
): AsyncGenerator<T> {
  const startMs = clock.monotonicMs();
  let bytes = 0;
  for await (const item of items) {
    bytes += bytesOf(item); // before the item is passed on, whose owner may reuse its memory
    yield item;
    const aheadMs = (bytes / bytesPerSecond) * 1000 - (clock.monotonicMs() - startMs);
    if (aheadMs >= MIN_SLEEP_MS) await clock.sleep(aheadMs, signal);
  }
}

/** Joins small chunks to blocks of about 512 KiB. */
export async function* joined(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let waiting: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of chunks) {
    waiting.push(chunk);
    bytes += chunk.length;
    if (bytes < BLOCK_BYTES) continue;
    yield Buffer.concat(waiting, bytes);
    [waiting, bytes] = [[], 0];
  }
  if (bytes > 0) yield Buffer.concat(waiting, bytes);
}
