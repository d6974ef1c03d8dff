import { describe, expect, test } from '@jest/globals';
import { findUntested } from './threat-model.ts';

const HEAD = '| claim | mechanism | test | open |\n|---|---|---|---|\n';
const read = (path: string): string | undefined =>
  path === 'a/x.test.ts' ? "test('refuses others', () => undefined);" : undefined;

describe('findUntested()', () => {
  test.each([
    { name: 'a row with a test', text: `${HEAD}| c | m | \`a/x.test.ts\` | |` },
    { name: 'a row with a title', text: `${HEAD}| c | m | \`a/x.test.ts\` “refuses others” | |` },
    { name: 'a row that only says what is open', text: `${HEAD}| c | m | – | all of it |` },
    {
      name: 'a row with the tests of the row above',
      text: `${HEAD}| c | m | \`a/x.test.ts\` | |\n| d | m | the same | |`,
    },
    { name: 'a table without claims', text: '| port | service |\n|---|---|\n| 1 | x |' },
  ])('accepts $name', ({ text }) => {
    expect(findUntested('p.md', text, read)).toEqual([]);
  });

  test.each([
    { name: 'a row without a test', text: `${HEAD}| c | m | | |`, want: /"c" names no test/ },
    {
      name: 'a test file that does not exist',
      text: `${HEAD}| c | m | \`a/y.test.ts\` | |`,
      want: /a\/y.test.ts does not exist/,
    },
    {
      name: 'a title that its file does not have',
      text: `${HEAD}| c | m | \`a/x.test.ts\` “refuses” | |`,
      want: /has no test "refuses"/,
    },
    {
      name: 'the tests of a row above that has none',
      text: `${HEAD}| c | m | the same | |`,
      want: /"c" names no test/,
    },
    {
      name: 'a table of claims without a column for tests',
      text: '| claim | mechanism |\n|---|---|\n| c | m |',
      want: /no column "test"/,
    },
  ])('refuses $name', ({ text, want }) => {
    expect(findUntested('p.md', text, read)).toEqual([expect.stringMatching(want)]);
  });
});
