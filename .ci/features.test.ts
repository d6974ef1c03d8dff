import { describe, expect, test } from '@jest/globals';
import {
  featuresPage,
  findProblems,
  LIMITS_BEGIN,
  LIMITS_END,
  withLimits,
  type Feature,
} from './features.ts';

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
      feature: { ...tea, state: 'partial' as const, lacks: 'milk' },
      want: 'which',
    },
    {
      name: 'a partial feature that README.md cannot describe',
      feature: { ...tea, state: 'partial' as const, note: 'green only' },
      want: 'in a few words',
    },
    {
      name: 'a line that is too long for README.md',
      feature: { ...tea, state: 'missing' as const, lacks: 'milk '.repeat(30) },
      want: 'characters',
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

describe('withLimits()', () => {
  const frame = (inside: string): string => `# Tea\n\n${LIMITS_BEGIN}\n${inside}${LIMITS_END}\n\nEnd\n`;

  test('lists what is missing and what works in part, and nothing that works', () => {
    const features: readonly Feature[] = [
      tea,
      { ...tea, feature: 'sugar in tea', state: 'missing' },
      { ...tea, feature: 'tea: of leaves', brief: 'Tea', lacks: 'green only', state: 'partial' },
    ];
    const list =
      '\n## What does not work\n\nMissing:\n\n- sugar in tea\n\nIn part (details: [docs/features.md](docs/features.md)):\n\n- Tea: green only\n\n';
    expect(withLimits(frame('stale\n'), features)).toBe(frame(list));
  });

  test('refuses a page without a place for the list', () => {
    expect(() => withLimits('# Tea\n', [])).toThrow('enclose');
  });
});
