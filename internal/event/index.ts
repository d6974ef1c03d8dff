/**
 * Event Values: state travels between workers as the newest value, not as a queue. A series (tasks, lines) goes through a
 * `Mailbox` instead.
 *
 *     one writer ── set(v) ──▶ EventValue<T> ── watch().next(signal) ──▶ many readers
 *
 * A reader gets the current value at once (or waits for the first), then each newer one. Values that it was too slow to
 * see are skipped, because only the newest state matters. A set never waits for a reader. Readers get the `Readable<T>`
 * side, the one writer gets the `Settable<T>` side. With thousands of readers, a `Paced` value wakes a few of them per
 * iteration of the event loop.
 *
 * Operators hold no state, and a watcher is subscribed only during a `next()`. So a forgotten watcher leaks nothing.
 */
export { EventValue } from './event-value.ts';
export { follow, when } from './follow.ts';
export { Mailbox } from './mailbox.ts';
export { combine, map } from './operators.ts';
export { Paced } from './paced.ts';
export { currentValue, type Readable, type Settable, type Watcher } from './readable.ts';
