import type { Readable } from './readable.ts';

/** The first value, from the current one on, that the predicate accepts. */
export async function when<T, Wanted extends T>(
  readable: Readable<T>,
  predicate: (value: T) => value is Wanted,
  signal: AbortSignal,
): Promise<Wanted>;
export async function when<T>(
  readable: Readable<T>,
  predicate: (value: T) => boolean,
  signal: AbortSignal,
): Promise<T>;
export async function when<T>(
  readable: Readable<T>,
  predicate: (value: T) => boolean,
  signal: AbortSignal,
): Promise<T> {
  using watcher = readable.watch();
  for (;;) {
    const value = await watcher.next(signal);
    if (predicate(value)) return value;
  }
}

/**
 * The current value and each newer one, for `for await`. Never ends by itself: when the signal fires
 * the loop throws its reason, so that no line behind the loop runs by mistake.
 */
export async function* follow<T>(
  readable: Readable<T>,
  signal: AbortSignal,
): AsyncGenerator<T, never, undefined> {
  using watcher = readable.watch();
  for (;;) yield await watcher.next(signal);
}
