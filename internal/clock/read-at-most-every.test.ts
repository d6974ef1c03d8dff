import { expect, test } from '@jest/globals';
import { FakeClock } from '../testing/fake-clock.ts';
import { readAtMostEvery } from './read-at-most-every.ts';

test('readAtMostEvery() reads again after the interval, not before, and repeats a failed read', async () => {
  const clock = new FakeClock();
  let count = 0;
  let isBroken = false;
  const read = readAtMostEvery(60_000, clock, () =>
    isBroken ? Promise.reject(new Error('unreadable')) : Promise.resolve(++count),
  );
  expect(await read()).toBe(1);
  await clock.advance(59_999);
  expect(await read()).toBe(1);
  await clock.advance(1);
  isBroken = true;
  await expect(read()).rejects.toThrow('unreadable');
  isBroken = false;
  expect(await read()).toBe(2);
});
