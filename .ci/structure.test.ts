import { describe, expect, test } from '@jest/globals';
import { exportsOf, findCrowded } from './structure.ts';

describe('findCrowded()', () => {
  const files = (count: number) => Array.from({ length: count }, (_, index) => `cli/admin/f${index}.ts`);

  test('allows twenty files and an index', () => {
    expect(findCrowded([...files(20), 'cli/admin/index.ts'])).toEqual([]);
  });

  test('refuses one file more', () => {
    expect(findCrowded(files(21))).toEqual([expect.stringContaining('cli/admin has 21')]);
  });

  test('does not count the files of directories below', () => {
    expect(findCrowded([...files(20), 'cli/admin/audit/list.ts'])).toEqual([]);
  });
});

describe('exportsOf()', () => {
  test('tells which exported symbols have a docstring', () => {
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
