/**
 * Time: the clock interface, durations and the backoff between attempts. Other code does not read `Date` or set
 * timers.
 */
export { Backoff } from './backoff.ts';
export { SystemClock, yieldToEventLoop, type Clock } from './clock.ts';
export { formatDuration, formatExpiry, parseDuration } from './duration.ts';
