/** Waits until the signal fires, as many runnables in tests do. */
export { untilAborted } from '../cleanup/index.ts';
