import type { Logger } from '../logging/index.ts';

/** Runs until its signal fires. Returning without `scope.done()` is a failure. */
export type Runnable = (scope: Scope) => Promise<void>;

/**
 * The supervisor as a runnable sees it. Valid for one run; misuse throws an error that names the path.
 * The functions need no `this`, so they can be destructured: `async ({ signal, healthy }) => …`.
 */
export interface Scope {
  /** Fires when this run must end: the program stops, or the parent or a group member failed. */
  readonly signal: AbortSignal;
  /** A logger with `path`. */
  readonly log: Logger;
  /** For example `root.roleserve.kubernetes`. */
  readonly path: string;
  /** Adds a child that is restarted alone. Only before `healthy()`. */
  readonly run: (name: string, runnable: Runnable) => void;
  /** Adds children that are restarted together. Only before `healthy()`. */
  readonly runGroup: (runnables: Readonly<Record<string, Runnable>>) => void;
  /** Reports, once, that the runnable does its work. */
  readonly healthy: () => void;
  /** Reports, once and after `healthy()`, that returning will be a success. */
  readonly done: () => void;
  /** Reports what the runnable waits for, so that idle and stuck look different; `undefined` when the wait is over. */
  readonly waiting: (what: string | undefined) => void;
  /** Ends this run and requests a restart without error and backoff. */
  readonly restart: (reason: string) => never;
}

/** Thrown to request a restart without error and backoff. */
export class RestartRequested extends Error {
  override readonly name = 'RestartRequested';
}

/** The reason of a scope's signal: what stopped the run. */
export class Stopped extends Error {
  // The name by which libraries recognize an abort.
  override readonly name = 'AbortError';
}
