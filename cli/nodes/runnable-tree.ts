import { formatDuration } from '../../internal/clock/index.ts';
import { Runnable_State, type Runnable } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { printable } from '../../internal/printable/index.ts';

/** Without a reason, what has not come up for so long is not on its way any more. */
const STUCK_MS = 60_000;

/** How one part of an agent is, so that idle and stuck look different. */
export interface RunnableView {
  readonly path: string;
  readonly depth: number;
  readonly state: 'new' | 'healthy' | 'done' | 'dead' | 'canceled' | 'unknown';
  readonly verdict: 'runs' | 'idle' | 'done' | 'starts' | 'stuck' | 'failed' | 'stopped';
  /** What it waits for, or why it does nothing. */
  readonly why: string;
  /** Of its last move. */
  readonly sinceMs: number;
  readonly restarts: number;
  readonly lastError: string | undefined;
}

const STATES: Readonly<Record<Runnable_State, RunnableView['state']>> = {
  [Runnable_State.UNSPECIFIED]: 'unknown',
  [Runnable_State.NEW]: 'new',
  [Runnable_State.HEALTHY]: 'healthy',
  [Runnable_State.DONE]: 'done',
  [Runnable_State.DEAD]: 'dead',
  [Runnable_State.CANCELED]: 'canceled',
};

export function runnableViews(runnables: readonly Runnable[], nowMs: number): readonly RunnableView[] {
  return runnables.map((runnable) => {
    const state = STATES[runnable.state];
    const sinceMs = Number(runnable.sinceMs);
    const { lastError, idleBecause, path, restarts } = runnable;
    return {
      path: printable(path),
      depth: path === '' ? 0 : path.split('.').length - 1,
      state,
      verdict: verdictOf(state, { why: idleBecause, forMs: nowMs - sinceMs }),
      why: printable(idleBecause),
      sinceMs,
      restarts,
      lastError:
        lastError === undefined ? undefined : printable(`${lastError.code} ${lastError.message}`.trim()),
    };
  });
}

function verdictOf(
  state: RunnableView['state'],
  { why, forMs }: { readonly why: string; readonly forMs: number },
): RunnableView['verdict'] {
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
      return forMs > STUCK_MS ? 'stuck' : 'starts';
  }
}

/** The tree with state, last move and last error of each, one line each. */
export function renderTree(views: readonly RunnableView[], nowMs: number): readonly string[] {
  const width = Math.max(0, ...views.map(({ path, depth }) => 2 * depth + lastOf(path).length));
  return views.map((view) => {
    const name = `${'  '.repeat(view.depth)}${lastOf(view.path)}`.padEnd(width);
    const parts = [
      `${view.verdict.padEnd(7)} ${formatDuration(nowMs - view.sinceMs).padStart(4)}`,
      ...(view.why === '' ? [] : [`(${view.why})`]),
      ...(view.restarts === 0 ? [] : [`${view.restarts} restarts`]),
      ...(view.lastError === undefined ? [] : [`last error: ${view.lastError}`]),
    ];
    return `  ${name}  ${parts.join('  ')}`.trimEnd();
  });
}

function lastOf(path: string): string {
  return path.slice(path.lastIndexOf('.') + 1) || 'agent';
}
