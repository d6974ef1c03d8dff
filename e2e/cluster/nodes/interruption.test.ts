import { expect, test } from '@jest/globals';
import { INTERRUPTIONS, planInterruptions, type Point } from './interruption.ts';

const stepsOf = (count: number): readonly Point[] =>
  Array.from({ length: count }, (_, occurrence) => ({ kind: 'step', code: 'node-drain', occurrence }));

test.each([1, 2, 3, 4, 5, 9])(
  'planInterruptions() hits each of %i points, and uses each kind of interruption',
  (count) => {
    for (let first = 0; first < INTERRUPTIONS.length; first++) {
      const plan = planInterruptions(stepsOf(count), first);
      expect(new Set(plan.map(({ by }) => by))).toEqual(new Set(INTERRUPTIONS));
      expect(new Set(plan.map(({ point }) => JSON.stringify(point))).size).toBe(count);
      expect(plan[0]?.by).toBe(INTERRUPTIONS[first]);
    }
  },
);

test('planInterruptions() of a command without points is empty', () => {
  expect(planInterruptions([], 0)).toEqual([]);
});
