/** Ground: the only door to time. */
export { SystemClock, type Clock } from './clock.ts';
export { yieldToEventLoop } from './turn.ts';
export { formatDuration, parseDuration } from './duration.ts';
