import { describeError } from '../errors/index.ts';

/** Distinguishes a new problem from a problem that repeats at each attempt, so that callers log each problem once. */
export class RepeatedProblem {
  #last = '';

  /** Whether the problem differs from the last one, or comes back after `end()`. */
  isNew(error: unknown): boolean {
    const problem = describeError(error);
    const isNew = problem !== this.#last;
    this.#last = problem;
    return isNew;
  }

  /** The last problem is over. */
  end(): void {
    this.#last = '';
  }
}
