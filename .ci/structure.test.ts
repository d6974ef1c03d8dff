import { describe, expect, test } from '@jest/globals';
import { LIMITS_BEGIN, LIMITS_END } from './features.ts';
import { exportsOf, findCrowded, findLongReadme } from './structure.ts';

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

describe('findLongReadme()', () => {
  test('findLongReadme() allows seventy lines of 5,000 bytes in total', () => {
    expect(findLongReadme(`${'x'.repeat(4_930)}${'\n'.repeat(70)}`)).toEqual([]);
  });

  test('findLongReadme() does not count the list of what does not work', () => {
    const list = `${LIMITS_BEGIN}${'\n- tea'.repeat(50)}${LIMITS_END}`;
    expect(findLongReadme(`${'\n'.repeat(35)}${list}${'\n'.repeat(35)}`)).toEqual([]);
  });

  test.each([
    { name: 'more lines', text: '\n'.repeat(71) },
    { name: 'longer lines', text: 'é'.repeat(2_501) },
  ])('findLongReadme() refuses $name', ({ text }) => {
    expect(findLongReadme(text)).toEqual([expect.stringContaining('move details to docs/')]);
  });
});
