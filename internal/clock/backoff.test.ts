import { describe, expect, test } from '@jest/globals';
import { Backoff } from './backoff.ts';

const plain = { firstMs: 100, factor: 2, longestMs: 500 };
const next = (backoff: Backoff, count: number): readonly number[] =>
  Array.from({ length: count }, () => backoff.nextMs());

describe('Backoff.nextMs()', () => {
  test('grows by the factor up to the maximum pause', () => {
    expect(next(new Backoff(plain), 5)).toEqual([100, 200, 400, 500, 500]);
  });

  test('varies each pause by up to half around the mean', () => {
    expect(next(new Backoff({ ...plain, random: () => 0 }), 2)).toEqual([50, 100]);
    expect(next(new Backoff({ ...plain, random: () => 0.999 }), 4)).toEqual([150, 300, 500, 500]);
  });

  test('is never shorter than the pause that the server requested', () => {
    const backoff = new Backoff(plain);
    expect([backoff.nextMs(1000), backoff.nextMs(10)]).toEqual([1000, 200]);
  });
});

test('Backoff.reset() starts again with the first pause', () => {
  const backoff = new Backoff(plain);
  next(backoff, 3);
  backoff.reset();
  expect(backoff.nextMs()).toBe(100);
});
