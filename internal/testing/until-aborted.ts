/** The body of many runnables in tests. */
export { untilAborted } from '../cleanup/index.ts';
