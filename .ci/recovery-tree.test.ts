import { expect, test } from '@jest/globals';
import { findProblems } from './recovery-tree.ts';

const FILES: Readonly<Record<string, string>> = {
  'e2e/a.story.ts': `await story.test('a lost node is removed', () => cli('node', 'remove', 'n2'));`,
  'e2e/b.story.ts': `import { fetch } from './fetch.ts'; await story.test('a backup is fetched', fetch);`,
  'e2e/a.test.ts': `test('a lost node is removed', () => cli('node', 'remove', 'n2'));`,
  'e2e/fetch.ts': `export const fetch = () => cli('backup', 'fetch');`,
};
const read = (path: string): string | undefined => FILES[path];
const LEAF = '`cluster node remove NODE --lost` ([more](#a-node-is-lost)). Test: `e2e/a.story.ts`:';
const pageOf = (...items: readonly string[]): string =>
  ['# Page', '## What do you see?', ...items, '## A node is lost', '- no leaf'].join('\n');

test('findProblems() accepts a tree whose leaves name a command and the test that runs the command', () => {
  const page = pageOf('- a node is silent', `  - for good: ${LEAF}`, '    a lost node is removed');
  expect(findProblems(page, read)).toEqual([]);
});

test('findProblems() accepts a command that a file beside the test runs', () => {
  const leaf =
    '- a backup is in a store: `cluster backup fetch s3://…`. Test: `e2e/b.story.ts`: a backup is fetched';
  expect(findProblems(pageOf(leaf), read)).toEqual([]);
});

test.each([
  { name: 'names no test', leaf: 'wait: `cluster node remove`', want: 'names no test' },
  {
    name: 'names a test that is no story',
    leaf: 'x: `cluster node remove`. Test: `e2e/a.test.ts`: a lost node is removed',
    want: 'e2e/a.test.ts is no story',
  },
  {
    name: 'names a file that does not exist',
    leaf: 'x: `cluster node remove`. Test: `e2e/gone.story.ts`: a lost node is removed',
    want: 'e2e/gone.story.ts does not exist',
  },
  {
    name: 'names a title that the file does not have',
    leaf: `x: ${LEAF} a lost node`,
    want: 'e2e/a.story.ts has no test "a lost node"',
  },
  {
    name: 'names no command',
    leaf: 'wait. Test: `e2e/a.story.ts`: a lost node is removed',
    want: 'names no command',
  },
  {
    name: 'names a command that the test does not run',
    leaf: 'x: `cluster node reset NODE`. Test: `e2e/a.story.ts`: a lost node is removed',
    want: 'e2e/a.story.ts does not run `cluster node reset`',
  },
  {
    name: 'links to a heading that does not exist',
    leaf: `x: ${LEAF.replace('#a-node', '#the-node')} a lost node is removed`,
    want: 'the page has no heading #the-node-is-lost',
  },
])('findProblems() reports a leaf that $name', ({ leaf, want }) => {
  const page = pageOf('- a node is silent', `  - ${leaf}`);
  expect(findProblems(page, read).map((text) => text.replace(/^.*…": /, ''))).toEqual([want]);
});

test('findProblems() reports a page without a tree', () => {
  expect(findProblems('# Page', read)).toHaveLength(1);
});
