/**
 * Ground: Event Values. State travels between workers as the newest value, never as a queue. What is no state but a
 * series (tasks, lines) goes through a `Mailbox`.
 *
 *     one writer ── set(v) ──▶ EventValue<T> ── watch().next(signal) ──▶ many readers
 *
 * A reader gets the current value at once (or waits for the first), then each newer one; what it was
 * too slow to see is skipped, because only the newest state is worth acting on. A set never waits for
 * a reader. Give readers the `Readable<T>` side and the one writer the `Settable<T>` side. Where thousands read, a `Paced`
 * value wakes a few of them in each turn of the event loop.
 *
 * Nothing is subscribed while nobody waits: operators hold no state, a watcher registers itself only
 * for the time of one `next()`. So nothing leaks, even when a watcher is forgotten.
 */
export { EventValue } from './event-value.ts';
export { follow, when } from './follow.ts';
export { Mailbox } from './mailbox.ts';
export { combine, map } from './operators.ts';
export { Paced } from './paced.ts';
export { currentValue } from './current-value.ts';
export type { Peeked, Readable, Settable, Watcher } from './readable.ts';
