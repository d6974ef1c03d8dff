import { expect, test } from '@jest/globals';
import { sample, textsOf } from './texts.ts';

test('textsOf() finds the messages and comments of product code', () => {
  const source = "// why it waits\nthrow new Error(`node ${name} not found`);\nconst key = 'value';\n";
  expect(textsOf('cli/x.ts', source)).toEqual([
    { kind: 'comment', where: 'cli/x.ts:1', text: 'why it waits' },
    { kind: 'message', where: 'cli/x.ts:2', text: 'node ${name} not found' },
  ]);
});

test('textsOf() finds the titles of tests and ignores their other strings', () => {
  const source = "test('refuses a second owner', () => {\n  run('a b');\n});\n";
  expect(textsOf('cli/x.test.ts', source)).toEqual([
    { kind: 'title', where: 'cli/x.test.ts:1', text: 'refuses a second owner' },
  ]);
});

test('sample() draws the same items for the same seed, and other items for another seed', () => {
  const items = Array.from({ length: 100 }, (_, index) => index);
  expect(sample(items, 5, 1)).toEqual(sample(items, 5, 1));
  expect(sample(items, 5, 1)).not.toEqual(sample(items, 5, 2));
  expect(new Set(sample(items, 50, 3)).size).toBe(50);
});
