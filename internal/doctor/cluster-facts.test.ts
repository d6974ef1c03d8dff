import { describe, expect, test } from '@jest/globals';
import { encodeFacts, MAX_FACTS_BYTES, parseFacts } from './cluster-facts.ts';
import { fakeFacts } from './fake-facts.ts';

const bytesOf = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));

describe('parseFacts()', () => {
  test('reads what encodeFacts() has written', () => {
    expect(parseFacts(encodeFacts(fakeFacts()))).toEqual(fakeFacts());
  });

  test('leaves out what a newer version has added, at every level', () => {
    const [first, ...others] = fakeFacts().metrics;
    if (first?.answer.ok !== true) throw new Error('no metrics');
    const answer = { ...first.answer, value: { ...first.answer.value, newer: [1] } };
    const newer = { ...fakeFacts(), newer: { a: 1 }, metrics: [{ ...first, answer }, ...others] };
    expect(parseFacts(bytesOf(newer))).toEqual(fakeFacts());
  });

  const cases = [
    { name: 'too many bytes', bytes: new Uint8Array(MAX_FACTS_BYTES + 1), code: 'doctor-facts-too-large' },
    { name: 'text that is not JSON', bytes: new TextEncoder().encode('{'), code: 'doctor-facts-malformed' },
    {
      name: 'bytes that are not UTF-8',
      bytes: new Uint8Array([0x22, 0xff, 0x22]),
      code: 'doctor-facts-malformed',
    },
    {
      name: 'an unknown format version',
      bytes: bytesOf({ ...fakeFacts(), version: 2 }),
      code: 'doctor-facts-version',
    },
    { name: 'a missing version', bytes: bytesOf({}), code: 'doctor-facts-malformed' },
    {
      name: 'a part that has neither a value nor an error',
      bytes: bytesOf({ ...fakeFacts(), joins: { ok: true } }),
      code: 'doctor-facts-malformed',
    },
    {
      name: 'a time that is no number',
      bytes: bytesOf({ ...fakeFacts(), takenMs: 'today' }),
      code: 'doctor-facts-malformed',
    },
  ];
  test.each(cases)('refuses $name', ({ bytes, code }) => {
    expect(() => parseFacts(bytes)).toThrow(expect.objectContaining({ code }));
  });
});
