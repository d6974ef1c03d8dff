import { describe, expect, test } from '@jest/globals';
import { printable, printableJson, printableLines } from './index.ts';

const hostile = [
  { name: 'an escape sequence', text: 'a\u001b[2Kb', want: 'a?[2Kb' },
  { name: 'a C1 control sequence', text: 'a\u009b2Kb', want: 'a?2Kb' },
  { name: 'an operating system command', text: 'a\u001b]0;x\u0007b', want: 'a?]0;x?b' },
  { name: 'a carriage return', text: 'good\rbad', want: 'good?bad' },
  { name: 'backspaces', text: 'bad\b\b\bgood', want: 'bad???good' },
  { name: 'a NUL character', text: 'a\u0000b', want: 'a?b' },
  { name: 'a bidirectional override', text: 'a\u202egnp.exe', want: 'a?gnp.exe' },
  { name: 'directional isolates', text: '\u2066a\u2069', want: '?a?' },
  { name: 'directional marks', text: 'a\u200e\u200f\u061cb', want: 'a???b' },
  { name: 'zero-width characters', text: 'n\u200b1\u2060\ufeff', want: 'n?1??' },
  { name: 'tag characters', text: 'a\u{e0061}b', want: 'a?b' },
  { name: 'line and paragraph separators', text: 'a\u2028b\u2029c', want: 'a?b?c' },
  { name: 'a lone surrogate', text: 'a\ud83d', want: 'a?' },
];

describe('printable()', () => {
  test.each(hostile)('replaces $name', ({ text, want }) => {
    expect(printable(text)).toBe(want);
    expect(printableLines(text)).toBe(want);
  });

  test('turns any text into one line and marks line breaks', () => {
    expect(printable('! node n1\n✔ verified\r\nx\ty')).toBe('! node n1↵✔ verified↵x?y');
  });

  test('keeps letters of all scripts', () => {
    expect(printable('Zürich – 東京 – שלום – 🙂')).toBe('Zürich – 東京 – שלום – 🙂');
  });

  test('truncates long text without splitting a character', () => {
    expect(printable('x'.repeat(5000))).toHaveLength(2000);
    expect(printable('ab🙂', { maxChars: 3 })).toBe('ab?');
  });
});

test('printableLines() keeps lines and columns', () => {
  expect(printableLines('a:\r\n\tb\u001b[1m\n')).toBe('a:\n\tb?[1m\n');
});

describe('printableJson()', () => {
  test.each([...hostile, { name: 'plain text', text: 'Zürich 🙂 "\\"' }])(
    'printableJson() returns equivalent JSON for $name',
    ({ text }) => {
      const made = printableJson(JSON.stringify({ text }));
      expect(JSON.parse(made)).toEqual({ text });
      expect(made).not.toMatch(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u);
    },
  );
});
