import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { differencesOf, isSameJson, mergeThreeWay, type Json } from './merge-three-way.ts';

const machine = (identity: string, name = identity): Json => ({ identity, name });

describe('mergeThreeWay()', () => {
  test.each<{ name: string; base: Json; mine: Json; current: Json; merged: Json; conflicts?: string[] }>([
    {
      name: 'takes a value that only I changed',
      base: { a: 1, b: 1 },
      mine: { a: 2, b: 1 },
      current: { a: 1, b: 3 },
      merged: { a: 2, b: 3 },
    },
    {
      name: 'keeps a value that only others changed',
      base: { a: 1 },
      mine: { a: 1 },
      current: { a: 5 },
      merged: { a: 5 },
    },
    {
      name: 'adds and removes keys',
      base: { a: 1 },
      mine: { b: 2 },
      current: { a: 1, c: 3 },
      merged: { c: 3, b: 2 },
    },
    {
      name: 'accepts the same change on both sides',
      base: { a: 1 },
      mine: { a: 2 },
      current: { a: 2 },
      merged: { a: 2 },
    },
    {
      name: 'reports the path of a value that both sides changed',
      base: { x: { a: 1 } },
      mine: { x: { a: 2 } },
      current: { x: { a: 3 } },
      merged: { x: { a: 2 } },
      conflicts: ['x.a'],
    },
    {
      name: 'reports the path of a value that I removed and others changed',
      base: { a: 1 },
      mine: {},
      current: { a: 2 },
      merged: {},
      conflicts: ['a'],
    },
    {
      name: 'merges lists of machines by their identity',
      base: [machine('p')],
      mine: [machine('p'), machine('q')],
      current: [machine('r'), machine('p')],
      merged: [machine('r'), machine('p'), machine('q')],
    },
    {
      name: 'reports the machine that both sides changed',
      base: [machine('p')],
      mine: [machine('p', 'x')],
      current: [machine('p', 'y')],
      merged: [machine('p', 'x')],
      conflicts: ['[p].name'],
    },
    {
      name: 'treats any other list as one value',
      base: ['a'],
      mine: ['a', 'b'],
      current: ['a', 'c'],
      merged: ['a', 'b'],
      conflicts: [''],
    },
  ])('mergeThreeWay() $name', ({ base, mine, current, merged, conflicts = [] }) => {
    const result = mergeThreeWay({ base, mine, current });
    expect(result.merged).toEqual(merged);
    expect(result.conflicts.map(({ path }) => path.join('.'))).toEqual(conflicts);
  });

  const json = fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<Json>;
  const document = fc.dictionary(fc.constantFrom('a', 'b', 'c'), json) as fc.Arbitrary<Json>;

  test('takes all my changes that nobody else made, and keeps all other current values', () => {
    fc.assert(
      fc.property(document, document, (one, other) => {
        const alone = mergeThreeWay({ base: one, mine: other, current: one });
        expect(alone.conflicts).toEqual([]);
        expect(isSameJson(alone.merged, other)).toBe(true);
        const idle = mergeThreeWay({ base: one, mine: one, current: other });
        expect(idle.conflicts).toEqual([]);
        expect(isSameJson(idle.merged, other)).toBe(true);
      }),
    );
  });

  test('without a conflict, the merge does not depend on the order of the two changes', () => {
    fc.assert(
      fc.property(document, document, document, (base, mine, theirs) => {
        const first = mergeThreeWay({ base, mine, current: theirs });
        const second = mergeThreeWay({ base, mine: theirs, current: mine });
        expect(first.conflicts.length === 0).toBe(second.conflicts.length === 0);
        if (first.conflicts.length === 0) expect(isSameJson(first.merged, second.merged)).toBe(true);
      }),
    );
  });
});

test('differencesOf() returns the deepest paths that differ', () => {
  expect(differencesOf({ a: { b: 1, c: 2 }, l: [machine('p')] }, { a: { b: 9, c: 2 }, l: [] })).toEqual([
    ['a', 'b'],
    ['l', '[p]'],
  ]);
});
