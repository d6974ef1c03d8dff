import { subtree, type Group, type TreeNode } from './node.ts';
import type { RunnableState } from './state.ts';

/** The state of one runnable. Plain JSON. */
export interface RunnableSnapshot {
  readonly path: string;
  readonly state: RunnableState;
  /** Wall-clock time of the last change of `state`. */
  readonly sinceMs: number;
  /** The number of restarts since its parent started. */
  readonly restarts: number;
  /** The error chain of the last failure; kept after the restart. */
  readonly lastError?: string;
  /** Wall-clock time of `lastError`. */
  readonly failedMs?: number;
  /** Wall-clock time of the next start, during the pause after a failure. */
  readonly backoffUntilMs?: number;
  /** What the runnable waits for, as it reported. */
  readonly note?: string;
}

/** All runnables, parents before children, siblings in the order of their start. */
export type TreeSnapshot = readonly RunnableSnapshot[];

/** A snapshot of the whole tree. */
export function snapshotOf(root: Group): TreeSnapshot {
  return [...subtree(root)].map(describeNode);
}

function describeNode({
  path,
  state,
  sinceMs,
  restarts,
  lastError,
  failedMs,
  group,
  note,
}: TreeNode): RunnableSnapshot {
  return {
    path,
    state,
    sinceMs,
    restarts,
    ...(lastError === undefined ? {} : { lastError }),
    ...(failedMs === undefined ? {} : { failedMs }),
    ...(group.pause === undefined ? {} : { backoffUntilMs: group.pause.untilMs }),
    ...(note === undefined ? {} : { note }),
  };
}
