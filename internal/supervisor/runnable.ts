import type { Logger } from '../logging/index.ts';

/** Lives until its signal fires. Returning without `scope.done()` is a failure. */
export type Runnable = (scope: Scope) => Promise<void>;

/**
 * What a runnable may ask of its supervisor. Valid for one life; misuse throws and names the path.
 * Its functions need no `this`: take apart what you use, `async ({ signal, healthy }) => …`.
 */
export interface Scope {
  /** Fires when this life is to end: the program stops, the parent or a group member fell. */
  readonly signal: AbortSignal;
  /** Named by `path`. */
  readonly log: Logger;
  /** `root.roleserve.kubernetes` */
  readonly path: string;
  /** Adds a child that falls alone. Only before `healthy()`. */
  readonly run: (name: string, runnable: Runnable) => void;
  /** Adds children that fall together. Only before `healthy()`. */
  readonly runGroup: (runnables: Readonly<Record<string, Runnable>>) => void;
  /** Says once that the work this runnable exists for is under way. */
  readonly healthy: () => void;
  /** Says once, after `healthy()`, that returning will be a success. */
  readonly done: () => void;
  /** Says what is waited for, so that idle and stuck look different; `undefined` when it is over. */
  readonly waiting: (what: string | undefined) => void;
  /** Ends this life and asks for a calm next one. */
  readonly restart: (reason: string) => never;
}

/** Thrown to ask for a calm restart: no error line, no backoff. */
export class RestartRequested extends Error {
  override readonly name = 'RestartRequested';
}

/** The reason of a scope's signal: who stopped it and why. */
export class Stopped extends Error {
  // The name by which every library recognizes an abort.
  override readonly name = 'AbortError';
}
