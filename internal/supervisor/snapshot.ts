import { subtree, type Group, type TreeNode } from './node.ts';
import type { RunnableState } from './state.ts';

/** What one runnable does at this moment. Plain JSON. */
export interface RunnableSnapshot {
  readonly path: string;
  readonly state: RunnableState;
  /** Wall clock of the last change of `state`. */
  readonly sinceMs: number;
  /** How often it was started again since its parent started. */
  readonly restarts: number;
  /** The chain of what it died of last; kept while it runs again. */
  readonly lastError?: string;
  /** Wall clock of the next start, while it pauses after a death. */
  readonly backoffUntilMs?: number;
  /** What it waits for, in its own words. */
  readonly note?: string;
}

/** Every runnable, parents before children, siblings in the order of their start. */
export type TreeSnapshot = readonly RunnableSnapshot[];

export function snapshotOf(root: Group): TreeSnapshot {
  return [...subtree(root)].map(describeNode);
}

function describeNode({
  path,
  state,
  sinceMs,
  restarts,
  lastError,
  group,
  note,
}: TreeNode): RunnableSnapshot {
  return {
    path,
    state,
    sinceMs,
    restarts,
    ...(lastError === undefined ? {} : { lastError }),
    ...(group.pause === undefined ? {} : { backoffUntilMs: group.pause.untilMs }),
    ...(note === undefined ? {} : { note }),
  };
}
