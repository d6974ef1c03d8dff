/** Ground layer: abort signals, timeouts and concurrent calls that leave nothing behind: no listener, no timer, no running call. */
export { mapConcurrently } from './map-concurrently.ts';
export {
  childSignal,
  isDoneWithin,
  TimeoutError,
  untilAborted,
  withChildSignal,
  withTimeout,
  type ChildSignal,
} from './child-signal.ts';
