/** Doubles that work, for tests only. Never imported by shipped code. */
export { FakeClock, settle } from './fake-clock.ts';
export { createMemoryLogger } from './memory-logger.ts';
