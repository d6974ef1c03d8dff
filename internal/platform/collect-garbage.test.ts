import { afterEach, expect, test } from '@jest/globals';
import { FakeClock } from '../testing/fake-clock.ts';
import { collectGarbageRegularly } from './collect-garbage.ts';

afterEach(() => {
  delete (globalThis as { gc?: unknown }).gc;
});

test('collectGarbageRegularly() collects after a minute and then every three minutes, until its signal fires', async () => {
  const clock = new FakeClock();
  const stop = new AbortController();
  let count = 0;
  (globalThis as { gc?: unknown }).gc = () => count++;
  const running = collectGarbageRegularly(clock, stop.signal);
  await clock.advance(59_999);
  expect(count).toBe(0);
  await clock.advance(1);
  expect(count).toBe(1);
  await clock.advance(180_000);
  expect(count).toBe(2);
  stop.abort();
  await running;
});
