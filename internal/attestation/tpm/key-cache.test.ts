import { describe, expect, test } from '@jest/globals';
import { createSoftKey } from '../../testing/tpm/fake-tpm.ts';
import { AttestationKeyCache } from './key-cache.ts';

describe('AttestationKeyCache', () => {
  test('returns the same object for the same bytes, and different objects for different bytes', () => {
    const cache = new AttestationKeyCache();
    const [one, two] = [createSoftKey().publicArea, createSoftKey().publicArea];
    expect(cache.parse(one)).toBe(cache.parse(one.slice()));
    expect(cache.parse(two)).not.toBe(cache.parse(one));
  });

  test('evicts the least recently used key at its limit', () => {
    const cache = new AttestationKeyCache(2);
    const [a, b, c] = [createSoftKey(), createSoftKey(), createSoftKey()];
    const first = cache.parse(a.publicArea);
    const second = cache.parse(b.publicArea);
    cache.parse(a.publicArea);
    cache.parse(c.publicArea);
    expect(cache.size).toBe(2);
    expect(cache.parse(a.publicArea)).toBe(first);
    expect(cache.parse(b.publicArea)).not.toBe(second);
  });

  test('caches nothing for bytes that are not a key', () => {
    const cache = new AttestationKeyCache();
    expect(() => cache.parse(new Uint8Array(10))).toThrow(expect.objectContaining({ code: 'tpm-malformed' }));
    expect(cache.size).toBe(0);
  });
});
