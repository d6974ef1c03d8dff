import type { Logger } from '../logging/index.ts';
import { RestartBackoff } from './restart-backoff.ts';
import type { Runnable } from './runnable.ts';
import type { RunnableState } from './state.ts';

/** A runnable's node in the tree. It persists over restarts, and is removed when the run of its parent ends. */
export interface TreeNode {
  readonly path: string;
  readonly log: Logger;
  readonly runnable: Runnable;
  readonly group: Group;
  readonly backoff: RestartBackoff;
  state: RunnableState;
  /** Wall-clock time of the last change of `state`. */
  sinceMs: number;
  restarts: number;
  lastError: string | undefined;
  /** Wall-clock time of `lastError`. */
  failedMs: number | undefined;
  note: string | undefined;
  run: Run;
}

/** One run of a node's runnable and the groups started by it. Times are monotonic. */
export interface Run {
  readonly controller: AbortController;
  readonly groups: Group[];
  readonly startedMs: number;
  healthyMs: number | undefined;
  saidDone: boolean;
  running: boolean;
  /** Aborted when the run has ended, to stop the grace timer. */
  readonly ended: AbortController;
  /** The pause before the next run, set when this run ends. */
  pauseMs: number;
}

/** Siblings that are stopped and restarted together. */
export interface Group {
  readonly members: TreeNode[];
  /** The pause before the next start, while it lasts; wall-clock time. */
  pause: { readonly controller: AbortController; readonly untilMs: number } | undefined;
}

/** Time and randomness for new nodes. */
export interface NodeOptions {
  readonly random: () => number;
  readonly nowMs: number;
  readonly monotonicMs: number;
}

/** A group of new nodes, one per runnable. */
export function createGroup(
  parentLog: Logger,
  runnables: Readonly<Record<string, Runnable>>,
  options: NodeOptions,
): Group {
  const group: Group = { members: [], pause: undefined };
  for (const [name, runnable] of Object.entries(runnables)) {
    const log = parentLog.child(name);
    group.members.push({
      path: log.path,
      log,
      runnable,
      group,
      backoff: new RestartBackoff(options.random),
      state: 'new',
      sinceMs: options.nowMs,
      restarts: 0,
      lastError: undefined,
      failedMs: undefined,
      note: undefined,
      run: createRun(options.monotonicMs),
    });
  }
  return group;
}

/** Creates the state of a run that starts at this monotonic time, in ms. */
export function createRun(startedMs: number): Run {
  return {
    controller: new AbortController(),
    groups: [],
    startedMs,
    healthyMs: undefined,
    saidDone: false,
    running: true,
    ended: new AbortController(),
    pauseMs: 0,
  };
}

/** The members of a group and everything below them, parents first. */
export function* subtree(group: Group): Generator<TreeNode> {
  for (const node of group.members) {
    yield node;
    for (const below of node.run.groups) yield* subtree(below);
  }
}

const RESERVED: readonly string[] = ['root', 'supervisor'];

/** Refuses a name that is no valid log path or metric label, or that a sibling already has. */
export function assertChildName(parent: TreeNode, name: string): void {
  const naming = `adding child ${JSON.stringify(name)} to ${parent.path}`;
  if (!/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/.test(name) || name.length > 63) {
    throw new Error(`${naming}: names are lower-case words joined by single dashes, at most 63 characters`);
  }
  if (RESERVED.includes(name)) throw new Error(`${naming}: this name is reserved`);
  const { path } = parent.log.child(name);
  if (parent.run.groups.some(({ members }) => members.some((node) => node.path === path))) {
    throw new Error(`${naming}: it already has a child of this name`);
  }
}
