/**
 * Time: the clock interface, durations and the backoff between attempts. Other code does not read `Date` or set
 * timers.
 */
export { Backoff } from './backoff.ts';
export { SystemClock, yieldToEventLoop, type Clock } from './clock.ts';
export {
  CLOCK_TOLERANCE_MS,
  DAY_MS,
  formatDuration,
  formatExpiry,
  HOUR_MS,
  MINUTE_MS,
  MINUTES_PER_DAY,
  parseDuration,
  wholeDays,
} from './duration.ts';
export { readAtMostEvery } from './read-at-most-every.ts';
