import { describe, expect, test } from '@jest/globals';
import { findRefused, renderPage, wordsOf, type Term } from './glossary.ts';

const TERMS: readonly Term[] = [
  { not: 'desk', use: 'service', names: ['desk'], texts: ['desks?'] },
  { not: 'way on', use: 'resume point', names: ['way on'] },
];

describe('wordsOf()', () => {
  test.each([
    ['leaseTimeoutMs', 'lease timeout ms'],
    ['LEASE_TIMEOUT', 'lease timeout'],
    ['cli/admin/lease-timeout.ts', 'cli admin lease timeout ts'],
    ['parseDERKey', 'parse der key'],
  ])('wordsOf() splits %s into the words "%s"', (name, words) => {
    expect(wordsOf(name)).toBe(words);
  });
});

describe('findRefused()', () => {
  test.each([
    { name: 'a declared name', text: 'export const ownerDesk = 1;', want: ['x.ts:1: name ownerDesk'] },
    { name: 'a sequence of words', text: 'interface WayOn {}', want: ['x.ts:1: name WayOn'] },
    { name: 'a comment', text: '\n// asks the desk\nconst a = 1;', want: ['x.ts:2: text: not "desk"'] },
    {
      name: 'a sentence in a string',
      text: "const a = 'ask the desks';",
      want: ['x.ts:1: text: not "desks"'],
    },
    { name: 'a template', text: 'const a = `the desk ${1}`;', want: ['x.ts:1: text: not "desk"'] },
  ])('findRefused() finds the word in $name', ({ text, want }) => {
    expect(findRefused('x.ts', text, TERMS)).toEqual(want.map((start) => expect.stringContaining(start)));
  });

  test.each(['x.mjs', 'x.proto'])('findRefused() reads %s', (path) => {
    expect(findRefused(path, '// asks the desk', TERMS)).toEqual([expect.stringContaining('"desk"')]);
  });

  test('findRefused() finds the word in a file name and in a page', () => {
    expect(findRefused('cli/desk.ts', '', TERMS)).toHaveLength(1);
    expect(findRefused('docs/x.md', 'one\nthe Desk', TERMS)).toEqual([
      expect.stringContaining('docs/x.md:2'),
    ]);
  });

  test.each(["const a = 'desk';", "import { x } from './a b/desk.ts';", 'const desktop = 1;', 'foo.desk();'])(
    'findRefused() accepts %s: a value, an import, another word, or a name declared elsewhere',
    (text) => {
      expect(findRefused('x.ts', text, TERMS)).toEqual([]);
    },
  );
});

test('findRefused() accepts an exempt word below its path, and no other word', () => {
  const exempt = [{ path: 'cli/', words: ['desk'], reason: 'a name on disk' }];
  expect(findRefused('cli/x.ts', 'const desk = 1;\nconst wayOn = 2;', TERMS, exempt)).toHaveLength(1);
  expect(findRefused('internal/x.ts', 'const desk = 1;', TERMS, exempt)).toHaveLength(1);
});

test('renderPage() replaces the table and keeps the text above it', () => {
  const page = 'Rules\n\n| not | but |\n|---|---|\n| old | row |\n';
  expect(renderPage(page, TERMS)).toBe(
    'Rules\n\n| not | but |\n|---|---|\n| desk | service |\n| way on | resume point |\n',
  );
});
