import { describe, expect, test } from '@jest/globals';
import { DisposableHolder } from './disposable-holder.ts';

class Thing implements Disposable {
  disposed = 0;

  [Symbol.dispose](): void {
    this.disposed++;
  }
}

describe('DisposableHolder', () => {
  test('disposes of a value that a newer value replaces', () => {
    const held = new DisposableHolder<Thing>();
    const [first, second] = [new Thing(), new Thing()];
    held.set(first);
    held.set(second);
    expect([first.disposed, second.disposed, held.value === second]).toEqual([1, 0, true]);
    held.clear();
    held.clear();
    expect([second.disposed, held.value]).toEqual([1, undefined]);
  });

  test('replaces a value that is still held', () => {
    const held = new DisposableHolder<Thing>();
    const [before, after] = [new Thing(), new Thing()];
    held.set(before);
    expect(held.replace(before, after)).toBe(true);
    expect([before.disposed, after.disposed, held.value === after]).toEqual([1, 0, true]);
  });

  test.each([
    {
      name: 'was cleared meanwhile',
      meanwhile: (held: DisposableHolder<Thing>) => held.clear(),
      left: false,
    },
    {
      name: 'was replaced meanwhile',
      meanwhile: (held: DisposableHolder<Thing>) => held.set(new Thing()),
      left: true,
    },
  ])('disposes of a late replacement, because the old value $name', ({ meanwhile, left }) => {
    const held = new DisposableHolder<Thing>();
    const [before, late] = [new Thing(), new Thing()];
    held.set(before);
    meanwhile(held);
    expect(held.replace(before, late)).toBe(false);
    expect([before.disposed, late.disposed, held.value !== undefined]).toEqual([1, 1, left]);
    expect(held.value?.disposed ?? 0).toBe(0);
  });
});
