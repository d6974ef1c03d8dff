import type { Readable } from './readable.ts';

/** Waits for the first value, starting with the current one, that the predicate accepts. */
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
 * The current value and each newer one, for `for await`. The loop never ends normally: when the signal fires, it throws
 * the reason, so that no code after the loop runs.
 */
export async function* follow<T>(
  readable: Readable<T>,
  signal: AbortSignal,
): AsyncGenerator<T, never, undefined> {
  using watcher = readable.watch();
  for (;;) yield await watcher.next(signal);
}
