import { expect, test } from '@jest/globals';
import { findingsOf, reasonsIn } from './check-dependencies.ts';

const PAGE =
  '# A\n\n| x | y |\n\n## Dependencies\n\n| package | why |\n|---|---|\n| tea, @s/milk | taste |\n| cup |  |\n\n## Z\n\n| z | zz |\n';

test('reasonsIn() reads the table below "Dependencies" and no other table', () => {
  expect([...reasonsIn(PAGE)]).toEqual([
    ['tea', 'taste'],
    ['@s/milk', 'taste'],
    ['cup', ''],
  ]);
});

test('reports a dependency without a reason, and a reason without a dependency', () => {
  expect(findingsOf(['tea', 'cup', 'spoon'], reasonsIn(PAGE))).toEqual([
    'cup has no reason in ARCHITECTURE.md',
    'spoon has no reason in ARCHITECTURE.md',
    'ARCHITECTURE.md gives a reason for @s/milk, which is no dependency',
  ]);
});

test('reports nothing when each dependency has a reason', () => {
  expect(
    findingsOf(
      ['tea', '@s/milk'],
      new Map([
        ['tea', 'a'],
        ['@s/milk', 'b'],
      ]),
    ),
  ).toEqual([]);
});
