import type { Logger } from '../logging/index.ts';
import { RestartBackoff } from './restart-backoff.ts';
import type { Runnable } from './runnable.ts';
import type { RunnableState } from './state.ts';

/** A place in the tree. It outlives its lives, and goes when its parent's life ends. */
export interface TreeNode {
  readonly path: string;
  readonly log: Logger;
  readonly runnable: Runnable;
  readonly group: Group;
  readonly backoff: RestartBackoff;
  state: RunnableState;
  /** Wall clock of the last change of `state`. */
  sinceMs: number;
  restarts: number;
  lastError: string | undefined;
  note: string | undefined;
  run: Run;
}

/** One run of a node's runnable, and all that was started below it. Times are monotonic. */
export interface Run {
  readonly controller: AbortController;
  readonly groups: Group[];
  readonly startedMs: number;
  healthyMs: number | undefined;
  saidDone: boolean;
  running: boolean;
  /** Fires when it has ended: nobody needs to watch it any more. */
  readonly ended: AbortController;
  /** The pause this life's end asks for. */
  pauseMs: number;
}

/** Siblings that fall together and start together. */
export interface Group {
  readonly members: TreeNode[];
  /** The pause before the next start, while it lasts. Wall clock. */
  pause: { readonly controller: AbortController; readonly untilMs: number } | undefined;
}

/** Time and chance, as far as the tree needs them. */
export interface NodeOptions {
  readonly random: () => number;
  readonly nowMs: number;
  readonly monotonicMs: number;
}

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
      note: undefined,
      run: createRun(options.monotonicMs),
    });
  }
  return group;
}

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

/** Names become log paths and metric labels: plain words joined by dashes. */
export function assertChildName(parent: TreeNode, name: string): void {
  const naming = `adding child ${JSON.stringify(name)} to ${parent.path}`;
  if (!/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/.test(name) || name.length > 63) {
    throw new Error(`${naming}: a name is lower-case words joined by single dashes, at most 63 characters`);
  }
  if (RESERVED.includes(name)) throw new Error(`${naming}: this name is reserved`);
  const { path } = parent.log.child(name);
  if (parent.run.groups.some(({ members }) => members.some((node) => node.path === path))) {
    throw new Error(`${naming}: it has a child of this name already`);
  }
}
