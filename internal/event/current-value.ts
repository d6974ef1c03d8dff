import type { Readable } from './readable.ts';

/** The current value; undefined also if no value was set yet. */
export function currentValue<T>(readable: Readable<T>): T | undefined {
  const now = readable.peek();
  return now.set ? now.value : undefined;
}
