/** The current value, or that there is none yet. Never set differs from set to `undefined`. */
export type Peeked<T> = { readonly set: false } | { readonly set: true; readonly value: T };

/** The side of the writer. */
export interface Settable<T> {
  /** Replaces the value and wakes all waiting readers, also when the new value equals the old one. */
  set(value: T): void;
}

/** The side of the readers. */
export interface Readable<T> {
  peek(): Peeked<T>;
  /** A cursor for one reader. */
  watch(): Watcher<T>;
  /** Grows with each set, so that a cursor knows what it has seen. */
  readonly revision: number;
  /** Calls `wake` at each set until disposed. For operators; readers use `watch()`. `wake` must not throw. */
  subscribe(wake: () => void): Disposable;
}

/** One reader's cursor. */
export interface Watcher<T> extends Disposable {
  /**
   * The first call returns the current value or waits for one; each later call waits for a newer set.
   * Rejects with the signal's reason when it fires; the cursor stays usable and loses nothing.
   * A second call while one is pending rejects: each reader needs its own cursor.
   */
  next(signal: AbortSignal): Promise<T>;
}
