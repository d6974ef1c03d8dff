/** Ground: signals and resources that always let go. */
export { childSignal, TimeoutError, untilAborted, withTimeout, type ChildSignal } from './child-signal.ts';
