import { expect, test } from '@jest/globals';
import { settle } from '../../internal/testing/index.ts';
import { Turnstile } from './turnstile.ts';

const signal = new AbortController().signal;

test('so many pass at once, the others in the order in which they came', async () => {
  const turnstile = new Turnstile(2);
  const passed: number[] = [];
  const places: Disposable[] = [];
  for (let i = 0; i < 5; i++)
    void turnstile.pass(signal).then((place) => {
      passed.push(i);
      places.push(place);
    });
  await settle();
  expect(passed).toEqual([0, 1]);
  places[0]?.[Symbol.dispose]();
  places[0]?.[Symbol.dispose](); // a second time gives nothing away
  await settle();
  expect(passed).toEqual([0, 1, 2]);
  for (const place of places.splice(1)) place[Symbol.dispose]();
  await settle();
  expect(passed).toEqual([0, 1, 2, 3, 4]);
});

test('who gives up leaves the queue, and takes no place', async () => {
  const turnstile = new Turnstile(1);
  const place = await turnstile.pass(signal);
  const stop = new AbortController();
  const given = turnstile.pass(stop.signal);
  const next = turnstile.pass(signal);
  stop.abort(new Error('enough'));
  await expect(given).rejects.toThrow('enough');
  expect(turnstile.waiting).toBe(1);
  place[Symbol.dispose]();
  await next;
  await expect(turnstile.pass(stop.signal)).rejects.toThrow('enough');
});
