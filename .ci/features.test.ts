import { describe, expect, test } from '@jest/globals';
import { featuresPage, findProblems, type Feature } from './features.ts';

const tea: Feature = { feature: 'tea', state: 'works', docs: 'docs/tea.md', proof: ['e2e/tea.story.ts'] };

describe('findProblems()', () => {
  test('accepts features whose tests and pages exist', () => {
    expect(findProblems([tea, { feature: 'milk', state: 'missing', proof: [] }], () => true)).toEqual([]);
  });

  test.each([
    { name: 'a working feature without a test', feature: { ...tea, proof: [] }, want: 'names no test' },
    {
      name: 'a feature with a test that does not exist',
      feature: { ...tea, proof: ['gone.ts'] },
      want: 'gone.ts does not',
    },
    {
      name: 'a feature with a page that does not exist',
      feature: { ...tea, docs: 'gone.md' },
      want: 'gone.md does not',
    },
    {
      name: 'a partial feature without a note',
      feature: { ...tea, state: 'partial' as const },
      want: 'which',
    },
  ])('findProblems() refuses $name', ({ feature, want }) => {
    const problems = findProblems([feature], (path) => !path.startsWith('gone'));
    expect(problems).toEqual([expect.stringContaining(want)]);
  });
});

test('featuresPage() has a row for each feature, with a link relative to docs/', () => {
  expect(
    featuresPage([tea, { ...tea, state: 'partial', note: 'green only' }])
      .split('\n')
      .slice(-3),
  ).toEqual(['| tea | works | [tea.md](tea.md) |', '| tea | in part | green only; [tea.md](tea.md) |', '']);
});
