import { describe, expect, test } from '@jest/globals';
import { RepeatedProblem } from './repeated-problem.ts';

describe('RepeatedProblem.isNew()', () => {
  const refused = new Error('refused');
  test.each([
    { name: 'is true for a first problem', before: () => undefined, want: true },
    {
      name: 'is false for a problem that repeats',
      before: (problem: RepeatedProblem) => problem.isNew(new Error('refused')),
      want: false,
    },
    {
      name: 'is true for another problem',
      before: (problem: RepeatedProblem) => problem.isNew(new Error('unreachable')),
      want: true,
    },
    {
      name: 'is true for a problem that returns after it was over',
      before: (problem: RepeatedProblem) => {
        problem.isNew(refused);
        problem.end();
      },
      want: true,
    },
  ])('$name', ({ before, want }) => {
    const problem = new RepeatedProblem();
    before(problem);
    expect(problem.isNew(refused)).toBe(want);
  });
});
