import { expect, test } from '@jest/globals';
import { DAY_MS } from '../internal/clock/index.ts';
import { DESCRIBED, tooOld } from './bench-age.ts';
import { SUITE_NAMES } from '../e2e/bench/suites.ts';

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

test('every suite of the bench names the code that it describes, and no other suite does', () => {
  expect(Object.keys(DESCRIBED)).toEqual(SUITE_NAMES);
});

test('the sizes of the artefacts describe how they are built', () => {
  expect(DESCRIBED.artefacts).toContain('.ci/build');
});
