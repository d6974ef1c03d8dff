import { describe, expect, test } from '@jest/globals';
import { FakeClock, settle } from '../testing/fake-clock.ts';
import { acquireLock, waitForLock } from './host-lock.ts';

test('a lock has one holder, and is free again when it is let go', async () => {
  const what = `test ${crypto.randomUUID()}`;
  {
    await using _held = await acquireLock(what);
    await expect(acquireLock(what)).rejects.toMatchObject({ code: 'localmachines-locked', exit: 'locked' });
    await using _other = await acquireLock(`${what} other`);
  }
  await using _again = await acquireLock(what);
});

test('of many that ask at once exactly one gets it', async () => {
  const what = `test ${crypto.randomUUID()}`;
  const asked = await Promise.allSettled(Array.from({ length: 20 }, () => acquireLock(what)));
  const won = asked.filter((each) => each.status === 'fulfilled');
  expect(won).toHaveLength(1);
  await won[0]?.value[Symbol.asyncDispose]();
});

describe('awaitTurn()', () => {
  const bench = (signal = new AbortController().signal) => {
    const clock = new FakeClock();
    const told: string[] = [];
    const options = { clock, limitMs: 10_000, onWait: () => told.push('waits'), signal };
    return { clock, told, options, what: `test ${crypto.randomUUID()}` };
  };

  /** The kernel's answer comes from outside of the fake time. */
  const pass = async (clock: FakeClock, ms: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed += 250) {
      while (clock.sleeping === 0) await new Promise((resolve) => setImmediate(resolve));
      await clock.advance(250);
    }
  };

  test('takes what is free and tells nobody', async () => {
    const { told, options, what } = bench();
    await using _lock = await waitForLock(what, options);
    expect(told).toEqual([]);
  });

  test('says that it waits, and has its turn when the other one has let go', async () => {
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

  test('gives up after its time, under the code of the lock', async () => {
    const { clock, options, what } = bench();
    await using _other = await acquireLock(what);
    const outcome = expect(waitForLock(what, options)).rejects.toMatchObject({
      code: 'localmachines-locked',
    });
    await pass(clock, 10_000);
    await outcome;
  });

  test('ends with its signal', async () => {
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
