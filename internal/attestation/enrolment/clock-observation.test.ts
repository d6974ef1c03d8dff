import { describe, expect, test } from '@jest/globals';
import {
  compareClockObservations,
  latestClockObservation,
  type ClockObservation,
} from './clock-observation.ts';

const MINUTE_MS = 60_000;
const first: ClockObservation = {
  attestationKeyNameHex: 'ak',
  nodeKeyId: 'node',
  clock: { clockMs: 100_000n, resetCount: 3, restartCount: 0, safe: true },
  seenAtMs: 1_000_000,
};

/** An observation of the same machine, `ms` later. */
function later(ms: number, change: Partial<ClockObservation> = {}): ClockObservation {
  const clock = { ...first.clock, clockMs: first.clock.clockMs + BigInt(ms) };
  return { ...first, clock, seenAtMs: first.seenAtMs + ms, ...change };
}

describe('compareClockObservations()', () => {
  test.each([
    { name: 'of the same machine a minute later', now: later(MINUTE_MS) },
    {
      name: 'of a machine whose clock runs a little fast',
      now: later(MINUTE_MS, { clock: { ...first.clock, clockMs: 165_000n } }),
    },
    {
      name: 'of a machine that was suspended in between',
      now: later(MINUTE_MS, { clock: { ...first.clock, clockMs: 100_001n } }),
    },
    {
      name: 'after a restart of the machine',
      now: later(MINUTE_MS, { clock: { ...first.clock, resetCount: 4, clockMs: 110_000n } }),
    },
    {
      name: 'of a machine that was reinstalled an hour later',
      now: later(60 * MINUTE_MS, { nodeKeyId: 'other' }),
    },
  ])('finds no anomaly in an observation $name', ({ now }) => {
    expect(compareClockObservations(first, now)).toEqual([]);
  });

  test.each([
    {
      name: 'whose clock went back',
      kind: 'clock-behind',
      now: later(MINUTE_MS, { clock: { ...first.clock, clockMs: 99_999n } }),
    },
    {
      name: 'with fewer restarts than the one before',
      kind: 'clock-behind',
      now: later(MINUTE_MS, { clock: { ...first.clock, resetCount: 2 } }),
    },
    {
      name: 'whose clock ran too fast',
      kind: 'clock-ahead',
      now: later(MINUTE_MS, { clock: { ...first.clock, clockMs: 300_000n } }),
    },
    {
      name: 'of the same TPM with another node key',
      kind: 'two-nodes',
      now: later(MINUTE_MS, { nodeKeyId: 'other' }),
    },
    {
      name: 'with another attestation key',
      kind: 'other-key',
      now: later(MINUTE_MS, { attestationKeyNameHex: 'other' }),
    },
  ])('reports an observation $name as $kind', ({ kind, now }) => {
    expect(compareClockObservations(first, now)).toEqual([expect.objectContaining({ kind })]);
  });

  test('detects at the second observation that two copies of a TPM run alternately', () => {
    const original = later(10 * MINUTE_MS);
    const copy = later(11 * MINUTE_MS, { clock: { ...first.clock, clockMs: 100_500n } }); // the copy, just started
    expect(compareClockObservations(original, copy).map((each) => each.kind)).toEqual(['clock-behind']);
    const record = latestClockObservation(original, copy);
    expect(record).toBe(original);
    expect(compareClockObservations(record, later(12 * MINUTE_MS))).toEqual([]); // the original ran on
  });
});

test('compareClockObservations() tolerates the configured delay and no more', () => {
  const last = { ...first, clock: { ...first.clock, clockMs: first.clock.clockMs + 1000n } };
  expect(compareClockObservations(last, first).map(({ kind }) => kind)).toEqual(['clock-behind']);
  expect(compareClockObservations(last, first, { slackMs: 1000 })).toEqual([]);
  expect(compareClockObservations(last, first, { slackMs: 999 }).map(({ kind }) => kind)).toEqual([
    'clock-behind',
  ]);
  const restarted = { ...last, clock: { ...last.clock, resetCount: last.clock.resetCount + 1 } };
  expect(compareClockObservations(restarted, first, { slackMs: 1000 }).map(({ kind }) => kind)).toEqual([
    'clock-behind',
  ]);
});

test('compareClockObservations() tolerates the configured clock rate', () => {
  const [day, counted] = [86_400_000, 1.3 * 86_400_000];
  const now = { ...later(counted), seenAtMs: first.seenAtMs + day };
  expect(compareClockObservations(first, now).map(({ kind }) => kind)).toEqual(['clock-ahead']);
  expect(compareClockObservations(first, now, { clockRate: 1.35 })).toEqual([]);
});

test('latestClockObservation() returns the first observation unchanged', () => {
  expect(latestClockObservation(undefined, first)).toBe(first);
});
