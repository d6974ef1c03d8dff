/** `new` runs and is not healthy yet; `done`, `dead` and `canceled` have ended. */
export type RunnableState = 'new' | 'healthy' | 'done' | 'dead' | 'canceled';

/** The allowed transitions. A transition to `new` is a restart. */
const TRANSITIONS: Readonly<Record<RunnableState, readonly RunnableState[]>> = {
  new: ['healthy', 'dead', 'canceled'],
  healthy: ['done', 'dead', 'canceled'],
  done: ['new'],
  dead: ['new'],
  canceled: ['new'],
};

/** @throws Error when the transition is not allowed */
export function assertMove(path: string, from: RunnableState, to: RunnableState): void {
  if (!TRANSITIONS[from].includes(to))
    throw new Error(`${path}: invalid state transition from ${from} to ${to}`);
}
