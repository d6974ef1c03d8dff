import { describe, expect, test } from '@jest/globals';
import { findUntested } from './threat-model.ts';

const HEAD = '| claim | mechanism | test | open |\n|---|---|---|---|\n';
const tests = {
  read: (path: string): string | undefined =>
    path.startsWith('a/') ? "test('refuses others', () => 0); test('is green', () => 0);" : undefined,
  isShown: ({ file, title }: { readonly file: string; readonly title: string | undefined }): boolean =>
    file === 'a/x.test.ts' && title !== 'is green',
};

describe('findUntested()', () => {
  test.each([
    { name: 'a row with a test', text: `${HEAD}| c | m | \`a/x.test.ts\` | |` },
    { name: 'a row with a title', text: `${HEAD}| c | m | \`a/x.test.ts\` “refuses others” | |` },
    { name: 'a story without a mutation', text: `${HEAD}| c | m | \`a/y.story.ts\` “refuses others” | |` },
    { name: 'a row that only says what is open', text: `${HEAD}| c | m | – | all of it |` },
    {
      name: 'a row with the tests of the row above',
      text: `${HEAD}| c | m | \`a/x.test.ts\` | |\n| d | m | the same | |`,
    },
    { name: 'a table without claims', text: '| port | service |\n|---|---|\n| 1 | x |' },
  ])('accepts $name', ({ text }) => {
    expect(findUntested('p.md', text, tests)).toEqual([]);
  });

  test.each([
    { name: 'a row without a test', text: `${HEAD}| c | m | | |`, want: /"c" names no test/ },
    {
      name: 'a test file that does not exist',
      text: `${HEAD}| c | m | \`b/y.test.ts\` | |`,
      want: /b\/y.test.ts does not exist/,
    },
    {
      name: 'a title that its file does not have',
      text: `${HEAD}| c | m | \`a/x.test.ts\` “refuses” | |`,
      want: /has no test "refuses"/,
    },
    {
      name: 'a test file without a mutation',
      text: `${HEAD}| c | m | \`a/y.test.ts\` | |`,
      want: /"c": no mutation turned a\/y.test.ts red/,
    },
    {
      name: 'a title that stayed green under every mutation',
      text: `${HEAD}| c | m | \`a/x.test.ts\` “refuses others”, “is green” | |`,
      want: /"c": no mutation turned a\/x.test.ts "is green" red/,
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
    expect(findUntested('p.md', text, tests)).toEqual([expect.stringMatching(want)]);
  });
});
