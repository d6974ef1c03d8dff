import { expect, test } from '@jest/globals';
import { canRestart } from './rekey.ts';

test.each([
  { others: 0, answering: 0, want: true, why: 'the only member' },
  { others: 1, answering: 1, want: true, why: 'one of two members, the other one answers' },
  { others: 1, answering: 0, want: false, why: 'one of two members, the other one does not answer' },
  { others: 2, answering: 2, want: true, why: 'one of three, both others answer' },
  { others: 2, answering: 1, want: false, why: 'one of three, one other answers' },
  { others: 4, answering: 3, want: true, why: 'one of five, three others answer' },
  { others: 4, answering: 2, want: false, why: 'one of five, two others answer' },
])('canRestart() is $want: $why', ({ others, answering, want }) => {
  expect(canRestart({ others, answering })).toBe(want);
});
