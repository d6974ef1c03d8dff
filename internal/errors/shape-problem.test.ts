import { describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { describeError } from './coded-error.ts';
import { describeShape } from './shape-problem.ts';

const shape = z.strictObject({
  version: z.literal(1),
  takenMs: z.int(),
  kind: z.enum(['a', 'b']),
  names: z.array(z.string().regex(/^[a-z]+$/)).min(1),
  when: z.iso.datetime(),
  item: z.union([z.strictObject({ der: z.string() }), z.strictObject({ text: z.object({ x: z.int() }) })]),
  own: z.string().refine((text) => text === 'x', 'expected x'),
});
const right = {
  ...{ version: 1, takenMs: 1, kind: 'a', names: ['a'], when: '2026-01-01T00:00:00Z' },
  ...{ item: { der: 'x' }, own: 'x' },
};

const TABLE: readonly { readonly given: unknown; readonly want: string }[] = [
  { given: undefined, want: 'not JSON' },
  { given: [], want: 'expected an object, found an array' },
  { given: null, want: 'expected an object, found null' },
  { given: { ...right, takenMs: undefined }, want: 'takenMs: missing, expected a number' },
  { given: { ...right, takenMs: 'x' }, want: 'takenMs: expected a number, found a string' },
  { given: { ...right, takenMs: 1.5 }, want: 'takenMs: expected an integer, found a number' },
  { given: { ...right, version: 2 }, want: 'version: expected 1' },
  { given: { ...right, kind: 'c' }, want: 'kind: expected one of a, b' },
  { given: { ...right, names: [] }, want: 'names: expected at least 1 (elements)' },
  { given: { ...right, names: ['A'] }, want: 'names.0: expected a text of another form' },
  { given: { ...right, when: 'x' }, want: 'when: expected a text of the form datetime' },
  { given: { ...right, item: { text: { x: 'y' } } }, want: 'item.text.x: expected a number, found a string' },
  { given: { ...right, own: 'y' }, want: 'own: expected x' },
  { given: { ...right, extra: 1 }, want: 'unknown key "extra"' },
];

describe('describeShape()', () => {
  test.each(TABLE)('says "$want"', ({ given, want }) => {
    const { error } = shape.safeParse(given);
    expect(error === undefined ? 'accepted' : describeShape(error)).toBe(want);
  });

  test('is used for an error of zod in a chain of causes', () => {
    const { error } = shape.safeParse({});
    expect(describeError(new Error('reading facts', { cause: error }))).toBe(
      'reading facts: version: expected 1',
    );
  });
});
