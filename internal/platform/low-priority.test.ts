import { getPriority } from 'node:os';
import { describe, expect, test } from '@jest/globals';
import { LowPriority } from './low-priority.ts';

describe('LowPriority', () => {
  test('is low until the last piece of work has ended', () => {
    const set: number[] = [];
    const priority = new LowPriority((niceness) => void set.push(niceness), 0);
    {
      using _one = priority.begin();
      {
        using _two = priority.begin();
        expect(set).toEqual([10]);
      }
      expect(set).toEqual([10]);
    }
    expect(set).toEqual([10, 0]);
    {
      using _again = priority.begin();
      expect(set).toEqual([10, 0, 10]);
    }
  });

  test('returns to the priority that the process had', () => {
    const set: number[] = [];
    for (const normal of [-5, 15]) {
      using _work = new LowPriority((niceness) => void set.push(niceness), normal).begin();
    }
    expect(set).toEqual([10, -5, 15, 15]);
  });

  test('work runs at normal priority where the priority cannot be changed', () => {
    const priority = new LowPriority(() => {
      throw new Error('EACCES');
    });
    using _work = priority.begin();
    expect(getPriority()).toBeLessThan(20);
  });
});
