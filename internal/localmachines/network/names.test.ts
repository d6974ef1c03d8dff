import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { isScopeOf, nodeScope, parseName, tpmScope } from './names.ts';

describe('parseName()', () => {
  test.each(['mini', 'a', 'n1', 'a-b', 'a2345678901234567890'])('parseName() accepts %j', (name) => {
    expect(parseName(name, 'cluster')).toBe(name);
  });

  test.each(['', '-a', 'a-', 'A', 'a b', 'a.b', '../a', 'a/b', 'a:b', 'a23456789012345678901', 'ä'])(
    'parseName() refuses %j',
    (name) => {
      expect(() => parseName(name, 'node')).toThrow(
        expect.objectContaining({ code: 'localmachines-invalid-name' }),
      );
    },
  );
});

test('isScopeOf() keeps clusters with similar numbers apart, and tpmScope() differs from nodeScope()', () => {
  const number = fc.integer({ min: 1, max: 250 });
  const node = fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?$/);
  fc.assert(
    fc.property(number, number, node, node, (one, other, a, b) => {
      expect(isScopeOf(one, nodeScope(other, a))).toBe(one === other);
      expect(isScopeOf(one, tpmScope(other, a))).toBe(one === other);
      expect(nodeScope(one, a)).not.toBe(tpmScope(other, b));
    }),
  );
});
