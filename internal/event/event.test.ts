import { getEventListeners } from 'node:events';
import { describe, expect, test } from '@jest/globals';
import { settle } from '../testing/fake-clock.ts';
import { combine, currentValue, EventValue, follow, map, when, type Readable } from './index.ts';

const never = new AbortController().signal;

describe('EventValue', () => {
  test('peek() distinguishes unset from set to undefined', () => {
    const value = new EventValue<undefined>();
    expect(value.peek()).toEqual({ set: false });
    value.set(undefined);
    expect(value.peek()).toEqual({ set: true, value: undefined });
  });

  test('the first next() returns the current value at once', async () => {
    const value = new EventValue<number>();
    value.set(7);
    using watcher = value.watch();
    expect(await watcher.next(never)).toBe(7);
  });

  test('the first next() waits for the first set', async () => {
    const value = new EventValue<number>();
    using watcher = value.watch();
    const first = watcher.next(never);
    await settle();
    expect(value.waiting).toBe(1);
    value.set(7);
    expect(await first).toBe(7);
  });

  test('set(undefined) wakes a waiting reader', async () => {
    const value = new EventValue<undefined>();
    using watcher = value.watch();
    const first = watcher.next(never);
    value.set(undefined);
    expect(await first).toBeUndefined();
  });

  test('next() skips missed values and returns the newest', async () => {
    const value = new EventValue<number>();
    using watcher = value.watch();
    for (const each of [1, 2, 3]) value.set(each);
    expect(await watcher.next(never)).toBe(3);
  });

  test('several sets in a row wake a waiting reader once, with the newest value', async () => {
    const value = new EventValue<number>();
    using watcher = value.watch();
    const first = watcher.next(never);
    for (const each of [1, 2, 3]) value.set(each);
    expect(await first).toBe(3);
    const second = watcher.next(never);
    await settle();
    expect(value.waiting).toBe(1);
    value.set(4);
    expect(await second).toBe(4);
  });

  test('set() of an equal value notifies the readers again', async () => {
    const value = new EventValue<string>();
    using watcher = value.watch();
    value.set('same');
    await watcher.next(never);
    const second = watcher.next(never);
    value.set('same');
    expect(await second).toBe('same');
  });

  test('each watcher has its own cursor', async () => {
    const value = new EventValue<number>();
    using early = value.watch();
    value.set(1);
    expect(await early.next(never)).toBe(1);
    using late = value.watch();
    expect(await late.next(never)).toBe(1);
  });

  test('set() does not wait for slow readers', () => {
    const value = new EventValue<number>();
    using watcher = value.watch();
    const pending = watcher.next(never);
    for (let round = 0; round < 1000; round++) value.set(round);
    expect(value.peek()).toEqual({ set: true, value: 999 });
    return expect(pending).resolves.toBe(999);
  });
});

describe('Watcher', () => {
  test('next() rejects a second reader and serves the first', async () => {
    const value = new EventValue<number>();
    using watcher = value.watch();
    const first = watcher.next(never);
    await expect(watcher.next(never)).rejects.toThrow('another next() is pending');
    value.set(1);
    expect(await first).toBe(1);
  });

  test('next() works again after an abort and skips no value', async () => {
    const value = new EventValue<number>();
    using watcher = value.watch();
    const controller = new AbortController();
    const first = watcher.next(controller.signal);
    controller.abort(new Error('enough'));
    value.set(1);
    await expect(first).rejects.toThrow('enough');
    expect(await watcher.next(never)).toBe(1);
  });

  test('next() rejects when its signal has fired before, even if there is a value', async () => {
    const value = new EventValue<number>();
    value.set(1);
    using watcher = value.watch();
    await expect(watcher.next(AbortSignal.abort(new Error('enough')))).rejects.toThrow('enough');
    expect(await watcher.next(never)).toBe(1);
  });

  test('dispose rejects a pending next() and unsubscribes', async () => {
    const value = new EventValue<number>();
    const watcher = value.watch();
    const pending = watcher.next(never);
    watcher[Symbol.dispose]();
    await expect(pending).rejects.toThrow('disposed while next() was pending');
    await expect(watcher.next(never)).rejects.toThrow('disposed');
    expect(value.waiting).toBe(0);
  });

  test('200,000 calls of next() leave no listener on the signal and none on the value', async () => {
    const { signal } = new AbortController();
    const value = new EventValue<number>();
    const view = combine({ value, twice: map(value, (n) => n * 2) });
    using watcher = view.watch();
    for (let round = 0; round < 200_000; round++) {
      const pending = watcher.next(signal);
      value.set(round);
      if ((await pending).twice !== round * 2) throw new Error(`round ${round} gave a wrong value`);
      // Fails early on a leak: with many listeners, each further round takes longer.
      if (round === 1000) expect(getEventListeners(signal, 'abort')).toHaveLength(0);
    }
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
    expect(value.waiting).toBe(0);
  }, 60_000);

  test('an aborted wait leaves no listener on the signal and none on the value', async () => {
    const controller = new AbortController();
    const value = new EventValue<number>();
    using watcher = combine({ value }).watch();
    const pending = watcher.next(controller.signal);
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(1);
    controller.abort(new Error('enough'));
    await expect(pending).rejects.toThrow('enough');
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0);
    expect(value.waiting).toBe(0);
  });
});

describe('map(), combine(), when() and follow()', () => {
  test('map() transforms peeked and watched values', async () => {
    const value = new EventValue<number>();
    const text: Readable<string> = map(value, (n) => `n=${n}`);
    expect(text.peek()).toEqual({ set: false });
    using watcher = text.watch();
    const first = watcher.next(never);
    value.set(1);
    expect(await first).toBe('n=1');
    expect(text.peek()).toEqual({ set: true, value: 'n=1' });
  });

  test('map() rejects with the error of its transform, once per set', async () => {
    const value = new EventValue<string>();
    using watcher = map(value, (text): unknown => JSON.parse(text)).watch();
    value.set('{');
    await expect(watcher.next(never)).rejects.toThrow(SyntaxError);
    const second = watcher.next(never);
    await settle();
    value.set('1');
    expect(await second).toBe(1);
  });

  test('combine() has a value when all of its sources have one', async () => {
    const role = new EventValue<string>();
    const curator = new EventValue<number | undefined>();
    const both = combine({ role, curator });
    using watcher = both.watch();
    const first = watcher.next(never);
    role.set('worker');
    await settle();
    expect(both.peek()).toEqual({ set: false });
    curator.set(undefined);
    expect(await first).toEqual({ role: 'worker', curator: undefined });
  });

  test('combine() reports a new value when any of its sources has a new value', async () => {
    const a = new EventValue<number>();
    const b = new EventValue<number>();
    a.set(1);
    b.set(1);
    using watcher = combine({ a, b }).watch();
    await watcher.next(never);
    const second = watcher.next(never);
    b.set(2);
    expect(await second).toEqual({ a: 1, b: 2 });
  });

  test('combine() without sources has an empty object as its value', async () => {
    using watcher = combine({}).watch();
    expect(await watcher.next(never)).toEqual({});
  });

  test('a derived readable without waiting readers has no subscription', () => {
    const value = new EventValue<number>();
    using _watcher = combine({ view: map(value, String) }).watch();
    expect(value.waiting).toBe(0);
  });

  test('next() of a combined readable that still lacks a value rejects when the signal fires after a wake-up', async () => {
    const controller = new AbortController();
    const role = new EventValue<string>();
    using watcher = combine({ role, curator: new EventValue<string>() }).watch();
    const waiting = watcher.next(controller.signal);
    role.set('worker');
    controller.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    expect(role.waiting).toBe(0);
  });

  test('when() returns the first value that the predicate accepts, and narrows its type', async () => {
    const value = new EventValue<number | undefined>();
    value.set(undefined);
    const found: Promise<number> = when(value, (n): n is number => n !== undefined, never);
    await settle();
    value.set(3);
    expect(await found).toBe(3);
    expect(value.waiting).toBe(0);
  });

  test('when() rejects with the reason of its signal', async () => {
    const controller = new AbortController();
    const value = new EventValue<number>();
    const waiting = when(value, () => true, controller.signal);
    controller.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    expect(value.waiting).toBe(0);
  });

  test('follow() yields the newest value until the loop ends', async () => {
    const value = new EventValue<number>();
    value.set(0);
    const seen: number[] = [];
    for await (const each of follow(value, never)) {
      seen.push(each);
      if (each === 4) break;
      value.set(each + 1);
      value.set(each + 2);
    }
    expect(seen).toEqual([0, 2, 4]);
    expect(value.waiting).toBe(0);
  });

  test('follow() throws the reason when its signal fires', async () => {
    const controller = new AbortController();
    const value = new EventValue<number>();
    value.set(0);
    const loop = (async () => {
      for await (const each of follow(value, controller.signal)) expect(each).toBe(0);
    })();
    await settle();
    controller.abort(new Error('enough'));
    await expect(loop).rejects.toThrow('enough');
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0);
  });
});

test("the compiler refuses set() with a value of a wrong type, and set() on the reader's side", () => {
  const value = new EventValue<number>();
  const reader: Readable<number> = value;
  // @ts-expect-error a string is not a number
  value.set('one');
  // @ts-expect-error the reader's side has no set()
  expect(reader.set).toBeDefined();
});

test('currentValue() returns the last value, and undefined before the first set()', () => {
  const value = new EventValue<string | undefined>();
  expect(currentValue(value)).toBeUndefined();
  value.set('a');
  expect(currentValue(value)).toBe('a');
  value.set(undefined);
  expect(currentValue(value)).toBeUndefined();
});
