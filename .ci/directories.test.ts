import { describe, expect, test } from '@jest/globals';
import { purposeOf, withMap } from './directories.ts';

describe('purposeOf()', () => {
  test.each([
    { name: 'a sentence', text: '/** Reads files. Never writes. */\nexport {};', want: 'Reads files.' },
    { name: 'a layer in front', text: '/** Port: one TPM 2.0. More. */', want: 'Port: one TPM 2.0.' },
    {
      name: 'a picture behind',
      text: '/**\n * Charts, in\n * order:\n *\n *   a ─▶ b\n */',
      want: 'Charts, in order.',
    },
    { name: 'no docstring', text: 'export {};', want: undefined },
  ])('takes the first sentence: $name', ({ text, want }) => {
    expect(purposeOf(text)).toBe(want);
  });
});

describe('withMap()', () => {
  const page =
    'a\n<!-- directories: written by `node .ci/directories.ts` -->\nold\n<!-- /directories -->\nz\n';

  test('replaces what is between the comments', () => {
    const written = withMap(page, [{ path: 'cli/app', purpose: 'Runs commands.' }]);
    expect(written).toContain('| `cli/app` | Runs commands. |');
    expect(written).not.toContain('old');
    expect(withMap(written, [{ path: 'cli/app', purpose: 'Runs commands.' }])).toBe(written);
  });

  test('refuses a page without them', () => {
    expect(() => withMap('nothing', [])).toThrow('no comments');
  });
});
