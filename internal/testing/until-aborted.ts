/** The body of many a runnable under test. */
export { untilAborted } from '../cleanup/index.ts';
