import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { DAY_MS, HOUR_MS } from '../clock/index.ts';
import { addMeasurement, growthOf, shiftHistory, type GrowthHistory } from './growth-history.ts';

const START_MS = Date.UTC(2026, 0, 1);
const GIB = 1024 ** 3;
const SIZE = 100 * GIB;

/** The history of a disk of 100 GiB that is measured every hour. */
function measured(hours: number, usedAt: (hour: number) => number, before?: GrowthHistory): GrowthHistory {
  let history = before;
  for (let hour = 0; hour <= hours; hour++)
    history = addMeasurement(history, START_MS + hour * HOUR_MS, {
      usedBytes: usedAt(hour),
      sizeBytes: SIZE,
    });
  if (history === undefined) throw new Error('no measurements');
  return history;
}

const perDay = (history: GrowthHistory): number | undefined => growthOf(history).bytesPerDay;
/** Grows by one GiB a day. */
const steady = (hour: number): number => 20 * GIB + (hour / 24) * GIB;
/** A number between -1 and 1 that looks random, and is the same each time. */
const noise = (hour: number): number => Math.sin(hour * hour * 12.9898);

describe('growthOf()', () => {
  test('is the growth a day, and over which time', () => {
    const { measuredMs, bytesPerDay } = growthOf(measured(9 * 24, steady));
    expect(measuredMs).toBe(9 * DAY_MS);
    expect(bytesPerDay).toBeCloseTo(GIB, -3);
  });

  test('states no growth before a day has passed', () => {
    expect(growthOf(measured(23, steady))).toEqual({ measuredMs: 23 * HOUR_MS, bytesPerDay: undefined });
    expect(perDay(measured(24, steady))).toBeCloseTo(GIB, -3);
  });

  test('states no growth from a few measurements of a node that was off meanwhile', () => {
    const few = measured(5, steady);
    const later = { usedBytes: steady(48), sizeBytes: SIZE };
    expect(perDay(addMeasurement(few, START_MS + 48 * HOUR_MS, later))).toBeUndefined();
  });

  test('finds the growth under noise', () => {
    const growth = perDay(measured(14 * 24, (hour) => steady(hour) + noise(hour) * GIB));
    expect(growth).toBeGreaterThan(0.95 * GIB);
    expect(growth).toBeLessThan(1.05 * GIB);
  });

  test.each<readonly [string, (hour: number) => number]>([
    ['a disk that only loses', (hour) => 60 * GIB - (hour / 24) * 0.1 * GIB],
    ['a disk that stays the same', () => 40 * GIB],
    ['noise', (hour) => 40 * GIB + noise(hour) * GIB],
    [
      'noise that is larger than the growth',
      (hour) => 40 * GIB + noise(hour) * GIB + (hour / 24) * 0.01 * GIB,
    ],
    ['one step', (hour) => (hour < 100 ? 40 : 48) * GIB],
    ['a file that comes and goes each night', (hour) => (hour % 24 < 3 ? 44 : 40) * GIB],
  ])('is 0 for %s', (_, usedAt) => {
    expect(perDay(measured(14 * 24, usedAt))).toBe(0);
  });

  test('is never negative, infinite or NaN, and the history stays small', () => {
    const step = fc.record({
      afterMs: fc.integer({ min: -2 * DAY_MS, max: 2 * DAY_MS }),
      usedBytes: fc.nat(SIZE),
      sizeBytes: fc.constantFrom(SIZE, SIZE, SIZE, 2 * SIZE, 0),
    });
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 60 }), (steps) => {
        let [history, nowMs]: [GrowthHistory | undefined, number] = [undefined, START_MS];
        for (const { afterMs, ...each } of steps) history = addMeasurement(history, (nowMs += afterMs), each);
        if (history === undefined) return;
        const times = history.measurements.map(([atMs]) => atMs);
        expect(times).toEqual(times.toSorted((a, b) => a - b));
        expect(new Set(times).size).toBe(times.length);
        const { measuredMs, bytesPerDay = 0 } = growthOf(history);
        expect(measuredMs).toBeLessThanOrEqual(14 * DAY_MS);
        expect(bytesPerDay).toBeGreaterThanOrEqual(0);
        expect(bytesPerDay).toBeLessThan(Infinity);
      }),
    );
  });
});

describe('addMeasurement()', () => {
  test('keeps two weeks', () => {
    const { measurements } = measured(40 * 24, steady);
    expect(measurements).toHaveLength(14 * 24);
    expect(measurements.at(-1)?.[0]).toBe(START_MS + 40 * DAY_MS);
  });

  test('forgets what is older than two weeks after a long pause', () => {
    const later = { usedBytes: 0.99 * SIZE, sizeBytes: SIZE };
    expect(addMeasurement(measured(48, steady), START_MS + 17 * DAY_MS, later).measurements).toHaveLength(1);
  });

  const last = START_MS + 48 * HOUR_MS;
  test.each([
    { name: 'the disk was enlarged', usedBytes: steady(48), sizeBytes: 2 * SIZE },
    { name: 'much was freed', usedBytes: steady(48) - 6 * GIB, sizeBytes: SIZE },
  ])('begins again when $name', ({ usedBytes, sizeBytes }) => {
    const history = addMeasurement(measured(47, steady), last, { usedBytes, sizeBytes });
    expect(history).toEqual({ sizeBytes, measurements: [[last, usedBytes]] });
  });

  test('begins again when much was freed in several hours', () => {
    let history = measured(47, steady);
    for (const hour of [48, 49, 50])
      history = addMeasurement(history, START_MS + hour * HOUR_MS, {
        usedBytes: steady(47) - (hour - 47) * 2 * GIB,
        sizeBytes: SIZE,
      });
    expect(history.measurements).toHaveLength(1);
  });

  test('goes on when a little was freed', () => {
    const usedBytes = steady(48) - 4 * GIB;
    expect(
      addMeasurement(measured(47, steady), last, { usedBytes, sizeBytes: SIZE }).measurements,
    ).toHaveLength(49);
  });
});

test('shiftHistory() keeps the growth and the ages', () => {
  const history = measured(72, steady);
  const shifted = shiftHistory(history, -5 * DAY_MS);
  expect(growthOf(shifted)).toEqual({ ...growthOf(history), bytesPerDay: expect.closeTo(GIB, -3) });
  expect(shifted.measurements.at(-1)?.[0]).toBe(START_MS - 2 * DAY_MS);
});
