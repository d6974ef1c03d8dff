/** Ground: abort signals and timeouts that always release their listeners. */
export { childSignal, TimeoutError, untilAborted, withTimeout, type ChildSignal } from './child-signal.ts';
