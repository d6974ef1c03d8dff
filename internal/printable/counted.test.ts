import { expect, test } from '@jest/globals';
import { counted } from './index.ts';

test.each([
  { of: [0, 'warning'], want: '0 warnings' },
  { of: [1, 'warning'], want: '1 warning' },
  { of: [2, 'voter'], want: '2 voters' },
  { of: [1, 'entry', 'entries'], want: '1 entry' },
  { of: [3, 'entry', 'entries'], want: '3 entries' },
] as const)('counted($of) is "$want"', ({ of: [count, one, many], want }) => {
  expect(counted(count, one, many)).toBe(want);
});
