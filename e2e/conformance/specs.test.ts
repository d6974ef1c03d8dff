import { describe, expect, test } from '@jest/globals';
import { focusOf, parseShard, parseSpecNames, selectSpecs } from './specs.ts';

const LISTED = `The following spec names can be used with 'ginkgo run --focus/skip':
    k8s.io/kubernetes/test/e2e/apps/b.go:12: [sig-apps] B should (work) [Conformance]
    k8s.io/kubernetes/test/e2e/apps/a.go:7: [sig-apps] A should work [Serial] [Conformance]
    k8s.io/kubernetes/test/e2e/apps/c.go:9: [sig-apps] C is optional [Feature:C]
`;
const ALL = { focus: undefined, skip: undefined, shard: undefined, quick: false };

test('parseSpecNames() returns the sorted names of conformance specs alone', () => {
  expect(parseSpecNames(LISTED)).toEqual([
    '[sig-apps] A should work [Serial] [Conformance]',
    '[sig-apps] B should (work) [Conformance]',
  ]);
});

describe('selectSpecs()', () => {
  const names = ['a', 'b', 'c', 'd', 'e'];

  test('puts every spec into exactly one shard', () => {
    const shards = [1, 2, 3].map((index) => selectSpecs(names, { ...ALL, shard: { index, of: 3 } }, []));
    expect(shards).toEqual([['a', 'd'], ['b', 'e'], ['c']]);
  });

  test.each([
    { name: 'matches the focus', selection: { ...ALL, focus: /[bc]/ }, want: ['b', 'c'] },
    { name: 'does not match the skip', selection: { ...ALL, skip: /[bc]/ }, want: ['a', 'd', 'e'] },
    { name: 'is in the list of quick specs', selection: { ...ALL, quick: true }, want: ['d'] },
  ])('selects what $name', ({ selection, want }) => {
    expect(selectSpecs(names, selection, ['d', 'gone'])).toEqual(want);
  });
});

test.each(['0/3', '4/3', '1', '1/0', 'a/b', '1/3/5'])('parseShard() refuses %s', (text) => {
  expect(() => parseShard(text)).toThrow(TypeError);
});

test('focusOf() matches its spec, and no other spec whose name only begins with the same text', () => {
  const name = '[sig-apps] B should (work) a+b [Conformance]';
  const focus = new RegExp(focusOf(name));
  expect(focus.test(`Kubernetes e2e suite ${name}`)).toBe(true);
  expect(focus.test(`${name} twice`)).toBe(false);
});
