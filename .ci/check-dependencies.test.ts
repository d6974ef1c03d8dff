import { expect, test } from '@jest/globals';
import { findingsOf, reasonsIn } from './check-dependencies.ts';

const PAGE =
  '# A\n\n| x | y |\n\n## Dependencies\n\n| package | why |\n|---|---|\n| tea, @s/milk | taste |\n| cup |  |\n\n## Z\n\n| z | zz |\n';

test('reads the reasons of that table and of no other', () => {
  expect([...reasonsIn(PAGE)]).toEqual([
    ['tea', 'taste'],
    ['@s/milk', 'taste'],
    ['cup', ''],
  ]);
});

test('names a dependency without a reason, and a reason without a dependency', () => {
  expect(findingsOf(['tea', 'cup', 'spoon'], reasonsIn(PAGE))).toEqual([
    'cup has no reason in ARCHITECTURE.md',
    'spoon has no reason in ARCHITECTURE.md',
    'ARCHITECTURE.md gives a reason for @s/milk, which is no dependency',
  ]);
});

test('is content when each has one', () => {
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
