import { describe, expect, test } from '@jest/globals';
import { Held } from './held.ts';

class Thing implements Disposable {
  disposed = 0;

  [Symbol.dispose](): void {
    this.disposed++;
  }
}

describe('Held', () => {
  test('lets go of what a newer one takes the place of', () => {
    const held = new Held<Thing>();
    const [first, second] = [new Thing(), new Thing()];
    held.hold(first);
    held.hold(second);
    expect([first.disposed, second.disposed, held.value === second]).toEqual([1, 0, true]);
    held.drop();
    held.drop();
    expect([second.disposed, held.value]).toEqual([1, undefined]);
  });

  test('exchanges what is still held', () => {
    const held = new Held<Thing>();
    const [before, after] = [new Thing(), new Thing()];
    held.hold(before);
    expect(held.exchange(before, after)).toBe(true);
    expect([before.disposed, after.disposed, held.value === after]).toEqual([1, 0, true]);
  });

  test.each([
    { name: 'was dropped meanwhile', meanwhile: (held: Held<Thing>) => held.drop(), left: false },
    {
      name: 'was replaced meanwhile',
      meanwhile: (held: Held<Thing>) => held.hold(new Thing()),
      left: true,
    },
  ])('lets go of a replacement that came too late, because what it was for $name', ({ meanwhile, left }) => {
    const held = new Held<Thing>();
    const [before, late] = [new Thing(), new Thing()];
    held.hold(before);
    meanwhile(held);
    expect(held.exchange(before, late)).toBe(false);
    expect([before.disposed, late.disposed, held.value !== undefined]).toEqual([1, 1, left]);
    expect(held.value?.disposed ?? 0).toBe(0);
  });
});
