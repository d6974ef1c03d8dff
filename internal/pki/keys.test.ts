import { describe, expect, test } from '@jest/globals';
import { createPrivateKey, createPublicKey, sign, verify } from 'node:crypto';
import { Secret } from '../secret/index.ts';
import { keyPemFromSeed } from './keys.ts';

const seed = (last: number, length = 48): Secret<Uint8Array> =>
  new Secret(Uint8Array.from({ length }, (_, at) => (at === length - 1 ? last : 0)));

describe('keyPemFromSeed()', () => {
  test('derives the private key 1 from a seed of zeros: its point is the generator of P-256 (SEC 2, 2.4.2)', () => {
    const { d, x, y } = createPrivateKey(keyPemFromSeed(seed(0)).reveal()).export({ format: 'jwk' });
    const hex = (base64url: string | undefined): string =>
      Buffer.from(base64url ?? '', 'base64url').toString('hex');
    expect([hex(d), hex(x), hex(y)]).toEqual([
      '1'.padStart(64, '0'),
      '6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296',
      '4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5',
    ]);
  });

  test('derives a valid key from each seed', () => {
    const [key, again, other] = [1, 1, 2].map((last) => keyPemFromSeed(seed(last)).reveal());
    expect(again).toBe(key);
    expect(other).not.toBe(key);
    const signature = sign('sha256', Buffer.from('text'), key ?? '');
    expect(verify('sha256', Buffer.from('text'), createPublicKey(key ?? ''), signature)).toBe(true);
  });

  test('refuses a seed of another length', () => {
    expect(() => keyPemFromSeed(seed(0, 32))).toThrow(RangeError);
  });
});
