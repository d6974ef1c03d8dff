/** Ground: the only door to time. */
export { Backoff, type BackoffOptions } from './backoff.ts';
export { SystemClock, type Clock } from './clock.ts';
export { yieldToEventLoop } from './turn.ts';
export { formatDuration, formatExpiry, parseDuration } from './duration.ts';
