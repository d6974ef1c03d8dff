import { expect, test } from '@jest/globals';
import { findBroken } from './links.ts';

const exists = (path: string): boolean => ['docs/a.md', 'cli/app', 'README.md'].includes(path);

test.each([
  { name: 'a relative link', text: '[x](gone.md)', want: 'docs/a.md: gone.md does not exist' },
  {
    name: 'a relative link to a parent directory',
    text: '[x](../GONE.md#part)',
    want: 'docs/a.md: ../GONE.md does not exist',
  },
  { name: 'a path in backticks', text: 'see `cli/gone.ts`', want: 'docs/a.md: cli/gone.ts does not exist' },
])('findBroken() finds $name to a missing file', ({ text, want }) => {
  expect(findBroken('docs/a.md', text, exists)).toEqual([want]);
});

test('findBroken() accepts existing files, URLs and words that are no paths', () => {
  const text = '[x](a.md) [y](../README.md#part) [z](https://example.org) `cli/app` `npm test` `a/b`';
  expect(findBroken('docs/a.md', text, exists)).toEqual([]);
});
