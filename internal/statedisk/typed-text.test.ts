import { randomBytes } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { decodeTyped, encodeTyped, readGroups, typedDigits, type TypedKind } from './typed-text.ts';

const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const BYTES: Readonly<Record<TypedKind, number>> = { challenge: 64, code: 16 };
const KINDS = ['challenge', 'code'] as const;
const CODE = encodeTyped(
  'code',
  Uint8Array.from({ length: 16 }, (_, at) => at * 17),
);

/** Another digit at one place. */
function withDigit(text: string, at: number, digit: string | undefined): string {
  return `${text.slice(0, at)}${digit}${text.slice(at + 1)}`;
}

describe.each(KINDS)('a typed %s', (kind) => {
  test('keeps any bytes', () => {
    const samples = [0, 255].map((byte) => new Uint8Array(BYTES[kind]).fill(byte));
    for (const bytes of [...samples, ...Array.from({ length: 50 }, () => randomBytes(BYTES[kind]))]) {
      const text = encodeTyped(kind, bytes);
      expect(text.replaceAll(/[-\n]/g, '')).toHaveLength(typedDigits(kind));
      expect(decodeTyped(kind, text)).toEqual({ kind: 'bytes', bytes: new Uint8Array(bytes) });
    }
  });

  test('names the group of every wrong digit, and of two digits that are exchanged', () => {
    const text = encodeTyped(kind, randomBytes(BYTES[kind])).replaceAll(/[-\n]/g, '');
    for (let at = 0; at < text.length; at++) {
      const why = `group ${Math.floor(at / 5) + 1} is mistyped`;
      for (const digit of ALPHABET)
        if (digit !== text[at])
          expect(decodeTyped(kind, withDigit(text, at, digit))).toEqual({ kind: 'mistyped', why });
      const [one, other] = [text[at], text[at + 1]];
      if (at % 5 === 4 || one === other) continue;
      expect(decodeTyped(kind, withDigit(withDigit(text, at, other), at + 1, one))).toEqual({
        kind: 'mistyped',
        why,
      });
    }
  });

  test('refuses groups that are exchanged, missing or repeated', () => {
    const groups = encodeTyped(kind, randomBytes(BYTES[kind])).split(/[-\n]/);
    const [first = '', second = '', ...rest] = groups;
    for (const [changed, group] of [
      [[second, first, ...rest], 1],
      [groups.slice(1), 1],
      [[first, ...groups], 2],
    ] as const)
      expect(decodeTyped(kind, changed.join('-'))).toEqual({
        kind: 'mistyped',
        why: `group ${group} is mistyped`,
      });
    expect(decodeTyped(kind, groups.slice(0, -1).join(' '))).toEqual({
      kind: 'mistyped',
      why: `${typedDigits(kind) - 5} letters and digits instead of ${typedDigits(kind)}`,
    });
  });
});

test('a code is seven groups in one line, a challenge four lines', () => {
  expect(CODE).toMatchInlineSnapshot(`"008J4-4CT4F-ANK7A-F24SK-NAXWZ-SQFEM-ZZTBA"`);
  const challenge = encodeTyped('challenge', new Uint8Array(64));
  expect(challenge.split('\n').map((line) => line.split('-').length)).toEqual([7, 7, 7, 5]);
});

test('decodeTyped() takes lower case, letters that look like digits, spaces and line breaks', () => {
  const typed = ` ${CODE.toLowerCase().replaceAll('0', 'o').replaceAll('1', 'l').replaceAll('-', '  \r\n')}\t`;
  expect(decodeTyped('code', typed)).toEqual(decodeTyped('code', CODE));
});

test.each([
  ['another alphabet', `U${CODE.slice(1)}`, 'group 1 is mistyped'],
  ['a control character', CODE.replace('-', '\u001b'), 'group 2 is mistyped'],
  ['nothing', '', '0 letters and digits instead of 35'],
  ['more than a person types', '0'.repeat(1001), 'too long'],
])('decodeTyped() refuses %s', (_, text, why) => {
  expect(decodeTyped('code', text)).toEqual({ kind: 'mistyped', why });
});

test('decodeTyped() refuses good groups that are no code of the same kind', () => {
  // Zeros have right check digits only in the first group; the others have the check digit of their position.
  const groups = Array.from({ length: 7 }, (_, index) =>
    [...ALPHABET].map((check) => `0000${check}`).find((group) => readGroups(group, index).kind === 'digits'),
  );
  expect(decodeTyped('code', groups.join('-'))).toEqual({
    kind: 'mistyped',
    why: 'the groups together are no code',
  });
});
