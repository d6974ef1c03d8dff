import { describe, expect, test } from '@jest/globals';
import { assertsCode, renderCases } from './refused-cases.ts';

const TEXT = `
  test.each([
    { name: 'a short one', given: 1, want: 'x-short' },
    { name: 'a long one', given: 2 },
    ['in a row', 3],
  ])('$name', ({ given }) => {
    expect(read(given)).toThrow(coded('x-size'));
  });

  test('a bad one', () => {
    expect(read(0)).toBe('x-bad');
  });
`;

describe('assertsCode()', () => {
  test.each([
    { title: 'a short one', code: 'x-short', want: 'yes' },
    { title: 'a short one', code: 'x-size', want: 'no-code' },
    { title: 'a long one', code: 'x-size', want: 'yes' },
    { title: 'in a row', code: 'x-size', want: 'yes' },
    { title: 'a long one', code: 'x-short', want: 'no-code' },
    { title: 'a bad one', code: 'x-bad', want: 'yes' },
    { title: 'a long one', code: 'x-bad', want: 'no-code' },
    { title: 'a good one', code: 'x-bad', want: 'no-title' },
  ])('assertsCode() finds $title with $code: $want', ({ title, code, want }) => {
    expect(assertsCode(TEXT, title, code)).toBe(want);
  });
});

test('a case with neither tests nor an answer, or with both, is a problem', () => {
  const refused = [['a', 'a bad one', 'x-bad']] as const;
  const cases = [{ case: 'empty' }, { case: 'both', refused, answer: 'none' }, { case: 'fine', refused }];
  const { page, problems } = renderCases(
    { files: { a: 'a.test.ts' }, sections: [{ title: 'A', cases }] },
    () => TEXT,
  );
  expect(problems).toEqual([
    '"empty": tests, or an answer why there is none',
    '"both": tests, or an answer why there is none',
  ]);
  expect(page).toContain('| fine | `x-bad` `a.test.ts`: a bad one |');
});
