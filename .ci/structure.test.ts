import { describe, expect, test } from '@jest/globals';
import { exportsOf, findCrowded } from './structure.ts';

describe('findCrowded()', () => {
  const files = (count: number) => Array.from({ length: count }, (_, index) => `cli/admin/f${index}.ts`);

  test('findCrowded() allows a directory of twenty files and an index', () => {
    expect(findCrowded([...files(20), 'cli/admin/index.ts'])).toEqual([]);
  });

  test('findCrowded() refuses a directory of twenty-one files', () => {
    expect(findCrowded(files(21))).toEqual([expect.stringContaining('cli/admin has 21')]);
  });

  test('findCrowded() does not count the files of subdirectories', () => {
    expect(findCrowded([...files(20), 'cli/admin/audit/list.ts'])).toEqual([]);
  });
});

describe('exportsOf()', () => {
  test('exportsOf() reports which exported symbols have a docstring', () => {
    const text = [
      '/** Adds. */ export function add(): void {}',
      'export const a = 1;',
      '// a comment is no docstring',
      'export interface B {}',
      'function hidden() {}',
    ].join('\n');
    expect(exportsOf('x.ts', text)).toEqual([
      { name: 'add', has: true },
      { name: 'a', has: false },
      { name: 'B', has: false },
    ]);
  });
});
