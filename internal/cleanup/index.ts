/** Ground: signals and resources that always let go. */
export { childSignal, TimeoutError, withTimeout, type ChildSignal } from './child-signal.ts';
