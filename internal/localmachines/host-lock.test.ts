import { describe, expect, test } from '@jest/globals';
import { FakeClock, settle } from '../testing/fake-clock.ts';
import { acquireLock, waitForLock } from './host-lock.ts';

test('acquireLock() gives a lock to one holder, and again after its release', async () => {
  const what = `test ${crypto.randomUUID()}`;
  {
    await using _held = await acquireLock(what);
    await expect(acquireLock(what)).rejects.toMatchObject({ code: 'localmachines-locked', exit: 'locked' });
    await using _other = await acquireLock(`${what} other`);
  }
  await using _again = await acquireLock(what);
});

test('acquireLock() gives the lock to exactly one of many concurrent callers', async () => {
  const what = `test ${crypto.randomUUID()}`;
  const asked = await Promise.allSettled(Array.from({ length: 20 }, () => acquireLock(what)));
  const won = asked.filter((each) => each.status === 'fulfilled');
  expect(won).toHaveLength(1);
  await won[0]?.value[Symbol.asyncDispose]();
});

describe('waitForLock()', () => {
  const bench = (signal = new AbortController().signal) => {
    const clock = new FakeClock();
    const told: string[] = [];
    const options = { clock, limitMs: 10_000, onWait: () => told.push('waits'), signal };
    return { clock, told, options, what: `test ${crypto.randomUUID()}` };
  };

  /** Advances the fake time, and waits for the kernel, which does not follow the fake time. */
  const pass = async (clock: FakeClock, ms: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed += 250) {
      while (clock.sleeping === 0) await new Promise((resolve) => setImmediate(resolve));
      await clock.advance(250);
    }
  };

  test('acquires a free lock without calling onWait', async () => {
    const { told, options, what } = bench();
    await using _lock = await waitForLock(what, options);
    expect(told).toEqual([]);
  });

  test('calls onWait, and acquires the lock after the other holder has released it', async () => {
    const { clock, told, options, what } = bench();
    const other = await acquireLock(what);
    const waiting = waitForLock(what, options);
    await pass(clock, 1_000);
    expect(told).toEqual(['waits']);
    while (clock.sleeping === 0) await settle();
    await other[Symbol.asyncDispose]();
    await clock.advance(250);
    await using _lock = await waiting;
    expect(told).toEqual(['waits']);
  });

  test('fails with the error code of the lock after its timeout', async () => {
    const { clock, options, what } = bench();
    await using _other = await acquireLock(what);
    const outcome = expect(waitForLock(what, options)).rejects.toMatchObject({
      code: 'localmachines-locked',
    });
    await pass(clock, 10_000);
    await outcome;
  });

  test('rejects when its signal fires', async () => {
    const stop = new AbortController();
    const { clock, options, what } = bench(stop.signal);
    await using _other = await acquireLock(what);
    const reason = new Error('enough');
    const outcome = expect(waitForLock(what, options)).rejects.toBe(reason);
    await pass(clock, 250);
    stop.abort(reason);
    await outcome;
    expect(clock.sleeping).toBe(0);
  });
});
