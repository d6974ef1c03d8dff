import type { Clock } from './clock.ts';

/**
 * Creates a function that returns the last result of `read`, and calls `read` again when that result is older than
 * `ms`. A failed read is not kept: its caller gets the error, and the next call reads again.
 */
export function readAtMostEvery<T>(
  ms: number,
  clock: Pick<Clock, 'monotonicMs'>,
  read: () => Promise<T>,
): () => Promise<T> {
  let last: { readonly atMs: number; readonly result: Promise<T> } | undefined;
  return () => {
    const nowMs = clock.monotonicMs();
    if (last !== undefined && nowMs - last.atMs < ms) return last.result;
    const result = read();
    last = { atMs: nowMs, result };
    result.catch(() => (last = undefined));
    return result;
  };
}
