import { describe, expect, test } from '@jest/globals';
import { formatDuration, formatExpiry, parseDuration, wholeDays } from './index.ts';

const DAY_MS = 86_400_000;

describe('formatDuration()', () => {
  test.each([
    { ms: -5, want: '0ms' },
    { ms: 0, want: '0ms' },
    { ms: 999, want: '999ms' },
    { ms: 3210, want: '3.2s' },
    { ms: 9_960, want: '10s' },
    { ms: 59_600, want: '1m' },
    { ms: 330_000, want: '5m30s' },
    { ms: 120_000, want: '2m' },
    { ms: 11_220_000, want: '3h7m' },
    { ms: 7 * DAY_MS - 3_600_000, want: '6d23h' },
    { ms: 8 * DAY_MS + 3_600_000, want: '8d' },
  ])('formatDuration() writes $ms ms as $want', ({ ms, want }) => expect(formatDuration(ms)).toBe(want));
});

test('formatExpiry() returns how long a certificate is still valid, or how long ago it expired', () => {
  expect(formatExpiry(DAY_MS, 0)).toBe('expires in 1d');
  expect(formatExpiry(0, 3_600_000)).toBe('expired 1h ago');
});

describe('parseDuration()', () => {
  test.each([
    { text: '90s', want: 90_000 },
    { text: '10m', want: 600_000 },
    { text: '2h', want: 7_200_000 },
    { text: '10d', want: 10 * DAY_MS },
  ])('parseDuration() reads $text', ({ text, want }) => expect(parseDuration(text)).toBe(want));

  test.each(['', '10', '0m', '10w', '1.5h', '-1m', '9999999s'])('parseDuration() refuses %j', (text) => {
    expect(parseDuration(text)).toBeUndefined();
  });
});

test.each([
  { ms: 0, want: 0 },
  { ms: DAY_MS - 1, want: 0 },
  { ms: 3 * DAY_MS, want: 3 },
  { ms: -1, want: -1 },
])('wholeDays() rounds $ms ms down to $want', ({ ms, want }) => expect(wholeDays(ms)).toBe(want));
