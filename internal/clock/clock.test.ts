import { getEventListeners } from 'node:events';
import { describe, expect, test } from '@jest/globals';
import { yieldToEventLoop, SystemClock } from './index.ts';

const clock = new SystemClock();
const never = new AbortController().signal;

test('SystemClock.nowMs() is the wall-clock time', () => {
  const beforeMs = Date.now();
  const nowMs = clock.nowMs();
  expect(nowMs).toBeGreaterThanOrEqual(beforeMs);
  expect(nowMs).toBeLessThanOrEqual(Date.now());
});

test('SystemClock.monotonicMs() never goes back', () => {
  const times = Array.from({ length: 1000 }, () => clock.monotonicMs());
  expect(times).toEqual(times.toSorted((a, b) => a - b));
});

describe('SystemClock.sleep()', () => {
  test('resolves after the given time, not before', async () => {
    const startedMs = clock.monotonicMs();
    await clock.sleep(20, never);
    expect(clock.monotonicMs() - startedMs).toBeGreaterThanOrEqual(19);
  });

  test('rejects with the reason of the signal as soon as the signal fires', async () => {
    const controller = new AbortController();
    const reason = new Error('enough');
    const sleeping = clock.sleep(60_000, controller.signal);
    controller.abort(reason);
    await expect(sleeping).rejects.toBe(reason);
  });

  test('rejects when its signal has fired before', async () => {
    const reason = new Error('enough');
    await expect(clock.sleep(0, AbortSignal.abort(reason))).rejects.toBe(reason);
  });

  test.each([0, -1, -Infinity])('sleep() of %p ms only yields to other work', async (ms) => {
    await clock.sleep(ms, never);
  });

  test.each([2 ** 31, 365 * 86_400_000, Infinity])('sleep() of %p ms does not end at once', async (ms) => {
    const controller = new AbortController();
    let ended = false;
    const sleeping = clock.sleep(ms, controller.signal).finally(() => (ended = true));
    await clock.sleep(20, never);
    expect(ended).toBe(false);
    controller.abort(new Error('enough'));
    await expect(sleeping).rejects.toThrow('enough');
  });

  test('refuses NaN', async () => {
    await expect(clock.sleep(NaN, never)).rejects.toThrow(RangeError);
  });

  test('leaves no listener on the signal', async () => {
    const controller = new AbortController();
    await clock.sleep(1, controller.signal);
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0);
    const sleeping = clock.sleep(60_000, controller.signal);
    controller.abort();
    await expect(sleeping).rejects.toThrow();
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0);
  });
});

test('yieldToEventLoop() resolves after all pending microtasks', async () => {
  const order: string[] = [];
  const resolved = yieldToEventLoop().then(() => order.push('next'));
  for (let step = 0; step < 100; step++) await Promise.resolve();
  order.push('this');
  await resolved;
  expect(order).toEqual(['this', 'next']);
});
