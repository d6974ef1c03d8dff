import type { Readable } from './readable.ts';

/** The current value, for readers to whom never set and set to `undefined` are the same: nothing there. */
export function currentValue<T>(readable: Readable<T>): T | undefined {
  const now = readable.peek();
  return now.set ? now.value : undefined;
}
