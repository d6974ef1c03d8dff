/** `new` runs and is not healthy yet; `done`, `dead` and `canceled` have ended. */
export type RunnableState = 'new' | 'healthy' | 'done' | 'dead' | 'canceled';

/** Every move there is. `new` again is the next life. */
const MOVES: Readonly<Record<RunnableState, readonly RunnableState[]>> = {
  new: ['healthy', 'dead', 'canceled'],
  healthy: ['done', 'dead', 'canceled'],
  done: ['new'],
  dead: ['new'],
  canceled: ['new'],
};

export function assertMove(path: string, from: RunnableState, to: RunnableState): void {
  if (!MOVES[from].includes(to))
    throw new Error(`moving ${path} from ${from} to ${to}: there is no such move`);
}
