import { expect, test } from '@jest/globals';
import { DAY_MS } from '../internal/clock/index.ts';
import { tooOld } from './bench-age.ts';

const measuredMs = Date.UTC(2026, 10, 20);

test.each([
  { days: -30, want: [] },
  { days: 7, want: [] },
  {
    days: 8.5,
    want: ['join: the code was changed 8 days after it was measured, at most 7 allowed'],
  },
])('figures of code that was changed $days days after its measurement', ({ days, want }) => {
  expect(tooOld([{ suite: 'join', measuredMs, changedMs: measuredMs + days * DAY_MS }])).toEqual(want);
});
