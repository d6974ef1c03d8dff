import { expect, test } from '@jest/globals';
import { canRestart } from './rekey.ts';

test.each([
  { others: 0, answering: 0, want: true, why: 'the only member' },
  { others: 1, answering: 1, want: true, why: 'one of two members if the other member answers' },
  { others: 1, answering: 0, want: false, why: 'one of two members if the other member does not answer' },
  { others: 2, answering: 2, want: true, why: 'one of three members if both other members answer' },
  { others: 2, answering: 1, want: false, why: 'one of three members if only one other member answers' },
  { others: 4, answering: 3, want: true, why: 'one of five members if three other members answer' },
  { others: 4, answering: 2, want: false, why: 'one of five members if only two other members answer' },
])('canRestart() is $want for $why', ({ others, answering, want }) => {
  expect(canRestart({ others, answering })).toBe(want);
});
