import { expect, test } from '@jest/globals';
import { canRestart } from './rekey.ts';

test.each([
  { others: 0, answering: 0, want: true, why: 'alone, a new start costs seconds and there is no other way' },
  { others: 1, answering: 1, want: true, why: 'of two, the other one waits' },
  { others: 1, answering: 0, want: false, why: 'of two, the other one is gone' },
  { others: 2, answering: 2, want: true, why: 'of three, both others decide' },
  { others: 2, answering: 1, want: false, why: 'of three, one alone decides nothing' },
  { others: 4, answering: 3, want: true, why: 'of five, three decide' },
  { others: 4, answering: 2, want: false, why: 'of five, two do not' },
])('$why', ({ others, answering, want }) => {
  expect(canRestart({ others, answering })).toBe(want);
});
