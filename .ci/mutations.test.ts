import { describe, expect, test } from '@jest/globals';
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

function judged(over: Partial<Parameters<typeof judge>[0]> & { readonly open?: readonly string[] }) {
  const catalog = { mutations: [mutation], open: over.open ?? [] };
  return judge({ catalog, results: current, rows: [row, story], maxOpen: 1, read, ...over });
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
  test('accepts rows with a current result, and rows that only a story shows', () => {
    expect(judged({})).toEqual([]);
  });

  test.each([
    {
      name: 'a row without a mutation',
      over: { catalog: { mutations: [], open: [] } },
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
      over: { catalog: { mutations: [mutation, mutation], open: [] } },
      want: /two mutations/,
    },
    { name: 'an open row that has a mutation', over: { open: [row.name] }, want: /remove it from "open"/ },
    { name: 'an open row that does not exist', over: { open: ['behaviour 9'] }, want: /no such row/ },
    { name: 'more open rows than before', over: { open: ['behaviour 8', 'behaviour 9'] }, want: /at most 1/ },
  ])('refuses $name', ({ over, want }) => {
    expect(judged(over).join('\n')).toMatch(want);
  });
});

test('renderPage() names what only stories show, and what is open', () => {
  const page = renderPage({ mutations: [mutation], open: ['behaviour 9'] }, [row, story]);
  expect(page).toContain('| a long one is accepted | `a.ts` | `a.test.ts`: a long one |');
  expect(page).toContain('## Only stories show these\n\n- behaviour 1\n');
  expect(page).toContain('## No mutation yet\n\n- behaviour 9\n');
});
