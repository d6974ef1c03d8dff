import { describe, expect, test } from '@jest/globals';
import { purposeOf, withMap } from './directories.ts';

describe('purposeOf()', () => {
  test.each([
    {
      name: 'a docstring with one sentence',
      text: '/** Reads files. Never writes. */\nexport {};',
      want: 'Reads files.',
    },
    {
      name: 'a docstring that follows a layer name',
      text: '/** Port layer: one TPM 2.0. More. */',
      want: 'Port layer: one TPM 2.0.',
    },
    {
      name: 'a docstring before a diagram',
      text: '/**\n * Charts, in\n * order:\n *\n *   a ─▶ b\n */',
      want: 'Charts, in order.',
    },
    { name: 'a file without a docstring', text: 'export {};', want: undefined },
  ])('purposeOf() returns the first sentence: $name', ({ text, want }) => {
    expect(purposeOf(text)).toBe(want);
  });
});

describe('withMap()', () => {
  const page =
    'a\n<!-- directories: written by `node .ci/directories.ts` -->\nold\n<!-- /directories -->\nz\n';

  test('withMap() replaces the text between the two marker comments', () => {
    const written = withMap(page, [{ path: 'cli/app', purpose: 'Runs commands.' }]);
    expect(written).toContain('| `cli/app` | Runs commands. |');
    expect(written).not.toContain('old');
    expect(withMap(written, [{ path: 'cli/app', purpose: 'Runs commands.' }])).toBe(written);
  });

  test('withMap() refuses a page without the marker comments', () => {
    expect(() => withMap('nothing', [])).toThrow('no comments');
  });
});
