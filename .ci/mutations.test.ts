import { describe, expect, test } from '@jest/globals';
import { readStory } from './mutations/run-mutations.ts';
import { hashOf, judge, patternOf, renderPage, rowsOf, type Mutation, type Row } from './mutations/rows.ts';

const CODE = 'export const isRefused = (size: number): boolean => size > 3; // a comment\n';
const TEST = "test('a long one', () => {});\n";
const read = (path: string): string => (path === 'a.ts' ? CODE : TEST);
const mutation: Mutation = {
  name: 'a long one is accepted',
  file: 'a.ts',
  find: 'size > 3',
  replace: 'false',
  test: 'a.test.ts',
  red: ['a long one'],
};
const row: Row = { name: 'refused: sizes / long', tests: [{ file: 'a.test.ts', title: 'a long one' }] };
const story: Row = { name: 'behaviour 1', tests: [{ file: 'a.story.ts', title: 'starts' }] };
const current = { [mutation.name]: { check: hashOf(CODE), test: hashOf(TEST) } };

function judged(over: Partial<Parameters<typeof judge>[0]>) {
  return judge({ catalog: { mutations: [mutation] }, results: current, rows: [row], read, ...over });
}

test('rowsOf() lists the rows that name a test', () => {
  const rows = rowsOf(
    { 1: { tests: [{ file: 'a.story.ts', title: 'starts' }] }, 2: { open: 'later' } },
    {
      files: { a: 'a.test.ts' },
      sections: [
        {
          title: 'sizes',
          cases: [
            { case: 'long', refused: [['a', 'a long one', 'x']] },
            { case: 'none', answer: '' },
          ],
        },
      ],
    },
  );
  expect(rows).toEqual([story, row]);
});

test('hashOf() depends on code, and neither on comments nor on types nor on layout', () => {
  expect(hashOf('export const isRefused = (size: bigint) =>\n  size > 3;')).toBe(hashOf(CODE));
  expect(hashOf(CODE.replace('3', '4'))).not.toBe(hashOf(CODE));
});

test('patternOf() matches each test of a table', () => {
  expect('refuses a (long) one at once').toMatch(new RegExp(`^${patternOf('refuses $name at once')}$`));
  expect('a (long) one').toMatch(new RegExp(`^${patternOf('a (long) one')}$`));
});

describe('judge()', () => {
  test('accepts rows with a current result', () => {
    expect(judged({})).toEqual([]);
  });

  test.each([
    {
      name: 'a row without a mutation',
      over: { catalog: { mutations: [] } },
      want: /no mutation shows/,
    },
    { name: 'a mutation without a result', over: { results: {} }, want: /has not turned its test red yet/ },
    {
      name: 'changed code',
      over: { read: (path: string) => (path === 'a.ts' ? `${CODE}f();` : TEST) },
      want: /a\.ts changed since/,
    },
    {
      name: 'a changed test',
      over: { read: (path: string) => (path === 'a.ts' ? CODE : `${TEST}f();`) },
      want: /a\.test\.ts changed since/,
    },
    { name: 'a text that is gone', over: { read: () => TEST }, want: /must occur once/ },
    {
      name: 'two mutations of one name',
      over: { catalog: { mutations: [mutation, mutation] } },
      want: /two mutations/,
    },
    {
      name: 'a row that only a story shows, without a mutation',
      over: { rows: [row, story] },
      want: /behaviour 1: no mutation shows/,
    },
  ])('refuses $name', ({ over, want }) => {
    expect(judged(over).join('\n')).toMatch(want);
  });
});

test('renderPage() has a row for each mutation', () => {
  const page = renderPage({ mutations: [mutation] }, 1);
  expect(page).toContain('| a long one is accepted | `a.ts` | `a.test.ts`: a long one |');
  expect(page).toContain('All 1 rows with a test have one.');
});

test('readStory() finds the tests of a story that passed, and those that failed', () => {
  const log = '▶ outer\n  ✔ one (1.5ms)\n  ✖ two (12ms)\n✖ outer (20ms)\nℹ tests 3\n✖ failing tests:\n';
  expect(readStory(log)).toEqual({ passed: ['one'], failed: ['two', 'outer'] });
});
