import { expect, test } from '@jest/globals';
import { codeLines, isProduct } from './lines.ts';

test('codeLines() leaves out comments and empty lines, and counts every line of a statement', () => {
  const text = [
    '/** Adds. */',
    'const a = `x',
    '',
    'y`; // two lines and an empty one',
    '',
    '// end',
    'f(',
    ');',
  ];
  expect(codeLines(text.join('\n'))).toBe(5);
});

test.each([
  ['cli/main.ts', true],
  ['internal/image/fake-stub.ts', false],
  ['internal/testing/index.ts', false],
  ['initproto/gen/init_pb.js', false],
  ['cli/app/app.test.ts', false],
  ['.ci/lines.ts', false],
])('isProduct(%j) is %j', (path, want) => {
  expect(isProduct(path)).toBe(want);
});
