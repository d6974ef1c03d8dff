import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { FakeClock } from '../testing/fake-clock.ts';
import { collectGarbageRegularly } from './collect-garbage.ts';

const MIB = 1024 ** 2;
const LIVE = 24 * MIB;
let used: number;
let count: number;
let clock: FakeClock;
let stop: AbortController;
let running: Promise<void>;

beforeEach(() => {
  [used, count, clock, stop] = [40 * MIB, 0, new FakeClock(), new AbortController()];
  (globalThis as { gc?: unknown }).gc = () => {
    count++;
    used = LIVE;
  };
  running = collectGarbageRegularly(clock, stop.signal, () => used);
});

afterEach(async () => {
  stop.abort();
  await running;
  delete (globalThis as { gc?: unknown }).gc;
});

test('collectGarbageRegularly() collects a minute after the start, and not while the heap does not grow', async () => {
  await clock.advance(59_999);
  expect(count).toBe(0);
  await clock.advance(1);
  expect(count).toBe(1);
  used = LIVE + 2 * MIB - 1;
  await clock.advance(3_600_000);
  expect(count).toBe(1);
});

test('collectGarbageRegularly() collects within 20 s after the heap has grown by 2 MiB', async () => {
  await clock.advance(60_000);
  used = LIVE + 2 * MIB;
  await clock.advance(19_999);
  expect(count).toBe(1);
  await clock.advance(1);
  expect(count).toBe(2);
});

test('collectGarbageRegularly() ends with its signal, also in the first minute', async () => {
  stop.abort();
  await running;
  expect(count).toBe(0);
});
