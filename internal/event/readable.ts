/** The current value, or `set: false` if there is none yet. So an unset value differs from `undefined`. */
export type Peeked<T> = { readonly set: false } | { readonly set: true; readonly value: T };

/** The view of an Event Value that its writer has. */
export interface Settable<T> {
  /** Replaces the value and wakes all waiting readers, also when the new value equals the old one. */
  set(value: T): void;
}

/** The read-only view of an Event Value. */
export interface Readable<T> {
  peek(): Peeked<T>;
  /** A cursor for one reader. */
  watch(): Watcher<T>;
  /** Grows with each set, so that a cursor can tell which values its reader has seen. */
  readonly revision: number;
  /**
   * Calls `wake` after every `set()` until disposed. Only for functions that derive another value (such as
   * `map`); other readers use `watch()`. `wake` must not throw.
   */
  subscribe(wake: () => void): Disposable;
}

/** One reader's cursor. */
export interface Watcher<T> extends Disposable {
  /**
   * The first call returns the current value, or waits for one. Each later call waits for a newer set.
   * Rejects with the signal's reason when the signal fires; the cursor stays usable and skips no value. A
   * second concurrent call rejects: each reader needs its own cursor.
   */
  next(signal: AbortSignal): Promise<T>;
}

/** The current value; undefined also if no value was set yet. */
export function currentValue<T>(readable: Readable<T>): T | undefined {
  const now = readable.peek();
  return now.set ? now.value : undefined;
}
