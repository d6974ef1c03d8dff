/** Time: the clock port, durations and the backoff between attempts. Nothing else reads `Date` or sets timers. */
export { Backoff, type BackoffOptions } from './backoff.ts';
export { SystemClock, type Clock } from './clock.ts';
export { yieldToEventLoop } from './turn.ts';
export { formatDuration, formatExpiry, parseDuration } from './duration.ts';
