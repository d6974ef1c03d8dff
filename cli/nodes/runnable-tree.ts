import { formatDuration } from '../../internal/clock/index.ts';
import { Runnable_State, type Runnable } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { printable } from '../../internal/printable/index.ts';
import { errorText, timeOf } from '../cluster/index.ts';

/** A runnable counts as stuck if it has been starting for this long without a reason for waiting. */
const STUCK_MS = 60_000;

/** One runnable of an agent, as plain values. `verdict` tells an idle runnable from a stuck one. */
export type RunnableView = ReturnType<typeof runnableViews>[number];

type State = 'new' | 'healthy' | 'done' | 'dead' | 'canceled' | 'unknown';

const STATES: Readonly<Record<Runnable_State, State>> = {
  [Runnable_State.UNSPECIFIED]: 'unknown',
  [Runnable_State.NEW]: 'new',
  [Runnable_State.HEALTHY]: 'healthy',
  [Runnable_State.DONE]: 'done',
  [Runnable_State.DEAD]: 'dead',
  [Runnable_State.CANCELED]: 'canceled',
};

/** Texts for people. `-o json` has the shorter values, which earlier versions used too. */
export const VERDICT_NAMES: Readonly<Record<string, string>> = { runs: 'running', starts: 'starting' };

/**
 * Runnables with their state at `nowMs`. `why`: what the runnable waits for, or empty; `sinceMs`: time of its
 * last state change; `failedMs`: time of its last error, which it may have recovered from.
 */
export function runnableViews(runnables: readonly Runnable[], nowMs: number) {
  return runnables.map((runnable) => {
    const state = STATES[runnable.state];
    const sinceMs = Number(runnable.sinceMs);
    const { lastError, idleBecause, path, restarts } = runnable;
    return {
      path: printable(path),
      depth: path === '' ? 0 : path.split('.').length - 1,
      state,
      verdict: verdictAt({ state, why: idleBecause, sinceMs }, nowMs),
      why: printable(idleBecause),
      sinceMs,
      restarts,
      lastError: lastError && errorText(lastError),
      failedMs: timeOf(lastError),
    };
  });
}

/** The verdict at a later time: a runnable that starts for long is stuck, without a report of its agent. */
export function verdictAt(
  { state, why, sinceMs }: { readonly state: State; readonly why: string; readonly sinceMs: number },
  nowMs: number,
) {
  switch (state) {
    case 'healthy':
      return 'runs';
    case 'done':
      return 'done';
    case 'dead':
      return 'failed';
    case 'canceled':
      return 'stopped';
    case 'new':
    case 'unknown':
      if (why !== '') return 'idle';
      return nowMs - sinceMs > STUCK_MS ? 'stuck' : 'starts';
  }
}

/** The tree, one line for each runnable: state, its age, what it waits for, and its last error. */
export function renderTree(views: readonly RunnableView[], nowMs: number): readonly string[] {
  const width = Math.max(0, ...views.map(({ path, depth }) => 2 * depth + lastOf(path).length));
  return views.map((view) => {
    const name = `${'  '.repeat(view.depth)}${lastOf(view.path)}`.padEnd(width);
    const parts = [
      `${(VERDICT_NAMES[view.verdict] ?? view.verdict).padEnd(8)} ${formatDuration(nowMs - view.sinceMs).padStart(4)}`,
      ...(view.why === '' ? [] : [`(${view.why})`]),
      ...(view.restarts === 0 ? [] : [`${view.restarts} restarts`]),
      ...(view.lastError === undefined
        ? []
        : [
            `last error${view.failedMs === undefined ? '' : ` ${formatDuration(nowMs - view.failedMs)} ago`}: ${view.lastError}`,
          ]),
    ];
    return `  ${name}  ${parts.join('  ')}`.trimEnd();
  });
}

function lastOf(path: string): string {
  return path.slice(path.lastIndexOf('.') + 1) || 'agent';
}
