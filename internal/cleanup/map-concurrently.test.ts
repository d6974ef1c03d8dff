import { describe, expect, test } from '@jest/globals';
import { settle } from '../testing/index.ts';
import { mapConcurrently } from './map-concurrently.ts';

describe('mapConcurrently()', () => {
  test('returns the results in the order of the items, whichever ends first', async () => {
    const slow = Promise.withResolvers<void>();
    const work = async (item: number): Promise<number> => {
      if (item === 1) await slow.promise;
      if (item === 3) slow.resolve();
      return item * 10;
    };
    expect(await mapConcurrently([1, 2, 3], 2, work)).toEqual([10, 20, 30]);
    expect(await mapConcurrently([], 2, work)).toEqual([]);
  });

  test('never works on more items than the limit at the same time', async () => {
    let running = 0;
    let most = 0;
    await mapConcurrently([1, 2, 3, 4, 5, 6, 7], 3, async () => {
      most = Math.max(most, ++running);
      await settle();
      running--;
    });
    expect(most).toBe(3);
  });

  test('starts no item after a failure, and rejects only after the running items have ended', async () => {
    const started: number[] = [];
    const slow = Promise.withResolvers<void>();
    let ended = false;
    const running = mapConcurrently([1, 2, 3, 4], 2, async (item) => {
      started.push(item);
      if (item === 2) throw new Error('failed');
      await slow.promise;
    }).finally(() => (ended = true));
    const rejected = expect(running).rejects.toThrow('failed');
    await settle();
    expect([started, ended]).toEqual([[1, 2], false]);
    slow.resolve();
    await rejected;
    expect(started).toEqual([1, 2]);
  });
});
