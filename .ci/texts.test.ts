import { expect, test } from '@jest/globals';
import { sample, textsOf } from './texts.ts';

test('textsOf() finds the messages and comments of product code', () => {
  const source = "// why it waits\nthrow new Error(`node ${name} not found`);\nconst key = 'value';\n";
  expect(textsOf('cli/x.ts', source)).toEqual([
    {
      kind: 'comment',
      where: 'cli/x.ts:1',
      text: 'why it waits',
      code: ['throw new Error(`node ${name} not found`);', "const key = 'value';"],
    },
    {
      kind: 'message',
      where: 'cli/x.ts:2',
      text: 'node ${name} not found',
      code: ['throw new Error(`node ${name} not found`);'],
    },
  ]);
});

test('textsOf() finds the titles of tests and ignores their other strings', () => {
  const source = "test('refuses a second owner', () => {\n  run('a b');\n  /a b/.test('a b');\n});\n";
  expect(textsOf('cli/x.test.ts', source)).toEqual([
    { kind: 'title', where: 'cli/x.test.ts:1', text: 'refuses a second owner' },
  ]);
});

test('textsOf() reads neighbouring lines of comment as one, and joined strings as one', () => {
  const source = "// The first half\n// and the second.\nlog('a long ' +\n  'sentence');\n";
  expect(textsOf('cli/x.ts', source)).toEqual([
    {
      kind: 'comment',
      where: 'cli/x.ts:1',
      text: 'The first half and the second.',
      code: ["log('a long ' +", "  'sentence');"],
    },
    { kind: 'message', where: 'cli/x.ts:3', text: 'a long sentence', code: ["log('a long ' +"] },
  ]);
});

test('textsOf() shows a test title with its group and with the row of its table', () => {
  const source = [
    "describe('the lock', () => {",
    "  test.each([{ name: 'a second owner', by: 'b c' }])('refuses $name', () => {});",
    '});',
    "const OWNERS = ['ann', 'bob'] as const;",
    "test.each(OWNERS)('%s may ask', () => {});",
    "describe('an untrusted peer', () => {",
    "  const OWNERS = ['eve'];",
    "  test.each(OWNERS)('%s is refused', () => {});",
    '});',
    'const row = (name: string, want: string) => ({ name, want });',
    "test.each([row('no leader', 'bad')])('$name is $want', () => {});",
  ].join('\n');
  expect(textsOf('cli/x.test.ts', source).map(({ where, text }) => [where, text])).toEqual([
    ['cli/x.test.ts:1', 'the lock'],
    ['cli/x.test.ts:2', 'the lock › refuses a second owner'],
    ['cli/x.test.ts:4', 'ann may ask'],
    ['cli/x.test.ts:4', 'bob may ask'],
    ['cli/x.test.ts:6', 'an untrusted peer'],
    ['cli/x.test.ts:7', 'an untrusted peer › eve is refused'],
    ['cli/x.test.ts:11', 'no leader is bad'],
  ]);
});

test('sample() draws the same items for the same seed, and other items for another seed', () => {
  const items = Array.from({ length: 100 }, (_, index) => index);
  expect(sample(items, 5, 1)).toEqual(sample(items, 5, 1));
  expect(sample(items, 5, 1)).not.toEqual(sample(items, 5, 2));
  expect(new Set(sample(items, 50, 3)).size).toBe(50);
});
