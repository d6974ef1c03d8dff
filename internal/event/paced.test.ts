import { describe, expect, test } from '@jest/globals';
import { settle } from '../testing/fake-clock.ts';
import { combine, EventValue, Paced, type Watcher } from './index.ts';

const never = new AbortController().signal;

/**
 * Creates readers of a paced value that wakes two of them at once. The event loop advances when a test calls
 * `nextIteration`.
 */
function bedOf(readers: number) {
  const value = new EventValue<number>();
  let resume: (() => void) | undefined;
  const nextIteration = (): Promise<void> => new Promise((resolve) => (resume = resolve));
  const paced = new Paced(value, { batchSize: 2, yieldToEventLoop: nextIteration });
  const seen: string[] = [];
  const read = async (name: number, watcher: Watcher<number>, signal = never): Promise<void> => {
    for (;;) seen.push(`${name}:${await watcher.next(signal)}`);
  };
  const watchers = Array.from({ length: readers }, () => paced.watch());
  const start = (name: number, signal = never): Promise<void> => read(name, watchers[name]!, signal);
  return {
    value,
    paced,
    watchers,
    start,
    startAll: async () => {
      for (const name of watchers.keys()) start(name).catch(() => undefined);
      await settle();
    },
    /** The values that readers got since the last call. */
    take: () => seen.splice(0),
    isYielding: () => resume !== undefined,
    iterate: async () => {
      const next = resume;
      resume = undefined;
      next?.();
      await settle();
    },
  };
}

describe('Paced', () => {
  test('wakes a few readers per iteration, in order of arrival', async () => {
    const bed = bedOf(5);
    await bed.startAll();
    bed.value.set(1);
    await settle();
    expect(bed.take()).toEqual(['0:1', '1:1']);
    await bed.iterate();
    expect(bed.take()).toEqual(['2:1', '3:1']);
    await bed.iterate();
    expect(bed.take()).toEqual(['4:1']);
    expect(bed.isYielding()).toBe(false);
  });

  test('wakes all readers at once when they are few', async () => {
    const bed = bedOf(2);
    await bed.startAll();
    bed.value.set(1);
    await settle();
    expect(bed.take()).toEqual(['0:1', '1:1']);
    expect(bed.isYielding()).toBe(false);
  });

  test('gives each reader the newest value once if set() is called while others wait', async () => {
    const bed = bedOf(5);
    await bed.startAll();
    bed.value.set(1);
    await settle();
    bed.value.set(2);
    await settle();
    expect(bed.take()).toEqual(['0:1', '1:1']);
    await bed.iterate();
    await bed.iterate();
    expect(bed.take()).toEqual(['2:2', '3:2', '4:2', '0:2']);
    await bed.iterate();
    expect(bed.take()).toEqual(['1:2']);
    expect(bed.isYielding()).toBe(false);
  });

  test('gives a new reader the newest value at once, and does not wake it again for that value', async () => {
    const bed = bedOf(4);
    for (const name of [0, 1, 2]) bed.start(name).catch(() => undefined);
    await settle();
    bed.value.set(1);
    bed.start(3).catch(() => undefined);
    await settle();
    expect(bed.take()).toEqual(['3:1', '0:1', '1:1']);
    await bed.iterate();
    expect(bed.take()).toEqual(['2:1']);
    expect(bed.isYielding()).toBe(false);
  });

  test('does not wake a reader that was disposed before its wake-up', async () => {
    const bed = bedOf(5);
    await bed.startAll();
    bed.value.set(1);
    await settle();
    bed.watchers[2]?.[Symbol.dispose]();
    bed.watchers[3]?.[Symbol.dispose]();
    await bed.iterate();
    expect(bed.take()).toEqual(['0:1', '1:1', '4:1']);
  });

  test('rejects a read whose signal fires before it is woken, and gives the value to the next read', async () => {
    const bed = bedOf(3);
    const stop = new AbortController();
    for (const name of [0, 1]) bed.start(name).catch(() => undefined);
    const aborted = bed.start(2, stop.signal);
    await settle();
    bed.value.set(1);
    stop.abort(new Error('enough'));
    await expect(aborted).rejects.toThrow('enough');
    await bed.iterate();
    expect(bed.take()).toEqual(['0:1', '1:1']);
    expect(await bed.watchers[2]?.next(never)).toBe(1);
  });

  test('wakes the remaining readers when one is disposed', async () => {
    const bed = bedOf(2);
    await bed.startAll();
    bed.watchers[0]?.[Symbol.dispose]();
    await settle();
    bed.value.set(1);
    await settle();
    expect(bed.take()).toEqual(['1:1']);
  });

  test('wakes a permanent subscriber for each set', () => {
    const { paced, value } = bedOf(0);
    let woken = 0;
    using _subscription = paced.subscribe(() => woken++);
    value.set(1);
    value.set(2);
    expect(woken).toBe(2);
  });

  test('unsubscribes from its source when the last reader leaves', async () => {
    const bed = bedOf(3);
    await bed.startAll();
    expect(bed.value.waiting).toBe(1);
    bed.value.set(1);
    await settle();
    expect(bed.value.waiting).toBe(1);
    for (const watcher of bed.watchers) watcher[Symbol.dispose]();
    expect(bed.value.waiting).toBe(0);
    await bed.iterate();
    await bed.startAll();
    expect(bed.isYielding()).toBe(false);
  });

  test('continues to wake its readers after a wake-up without a value', async () => {
    const value = new EventValue<number>();
    const late = new EventValue<number>();
    const paced = new Paced(combine({ value, late }), {
      batchSize: 1,
      yieldToEventLoop: () => Promise.resolve(),
    });
    const reading = Promise.all([1, 2, 3].map(() => paced.watch().next(never)));
    value.set(1);
    await settle();
    late.set(2);
    expect(await reading).toEqual(Array.from({ length: 3 }, () => ({ value: 1, late: 2 })));
  });
});
