/** Ground: the only door to time. */
export { SystemClock, type Clock } from './clock.ts';
export { nextTurn } from './turn.ts';
