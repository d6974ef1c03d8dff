/**
 * Time: the clock interface, durations and the backoff between attempts. Other code does not read `Date` or set
 * timers.
 */
export { Backoff } from './backoff.ts';
export { SystemClock, type Clock } from './clock.ts';
export { yieldToEventLoop } from './event-loop.ts';
export { formatDuration, formatExpiry, parseDuration } from './duration.ts';
