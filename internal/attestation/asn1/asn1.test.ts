import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { fuzz } from '../../testing/fuzz.ts';
import { der } from '../../testing/pki/index.ts';
import {
  Asn1Error,
  DerReader,
  parseBitString,
  parseBoolean,
  parseInteger,
  parseNull,
  parseOid,
  parseSmallInteger,
  parseText,
  parseTime,
  readOnly,
  TAG,
} from './index.ts';

const bytes = (hex: string): Uint8Array => new Uint8Array(Buffer.from(hex.replaceAll(' ', ''), 'hex'));

function elementOf(encoded: Uint8Array) {
  const reader = new DerReader(encoded);
  const element = reader.readAny();
  reader.end();
  return element;
}

/** Reads all nested elements and parses each value by its tag, as the certificate parser does. */
function walk(input: Uint8Array): void {
  const visit = (reader: DerReader): void => {
    while (!reader.done) {
      const tag = reader.nextTag;
      if (tag === TAG.sequence || tag === TAG.set || (tag ?? 0) >= 0xa0) reader.inside(tag ?? 0, visit);
      else readValue(reader);
    }
  };
  visit(new DerReader(input));
}

function readValue(reader: DerReader): void {
  const element = reader.readAny();
  const parse: Readonly<Record<number, (each: typeof element) => unknown>> = {
    [TAG.boolean]: parseBoolean,
    [TAG.integer]: parseInteger,
    [TAG.bitString]: parseBitString,
    [TAG.null]: parseNull,
    [TAG.oid]: parseOid,
    [TAG.utcTime]: parseTime,
    [TAG.generalizedTime]: parseTime,
    [TAG.utf8String]: parseText,
    [TAG.printableString]: parseText,
  };
  parse[element.tag]?.(element);
}

describe('readOnly()', () => {
  const refused = [
    { name: 'empty input', given: '' },
    { name: 'a tag without a length', given: '30' },
    { name: 'a byte after the end', given: '30 03 02 01 05 00' },
    { name: 'an element longer than its parent', given: '30 03 02 05 01' },
    { name: 'a length with one octet too many', given: '30 81 03 02 01 05' },
    { name: 'a length with a leading zero', given: '30 82 00 03 02 01 05' },
    { name: 'an indefinite length', given: '30 80 02 01 05 00 00' },
    { name: 'a length of four octets', given: '30 84 00 00 00 03 02 01 05' },
    { name: 'a length of 126 octets', given: '30 fe' },
    { name: 'a tag of two octets', given: '3f 81 01 00' },
    { name: 'an unexpected tag', given: '31 03 02 01 05' },
    { name: 'an element that the parser does not read', given: '30 06 02 01 05 02 01 06' },
  ];
  test.each(refused)('refuses $name', ({ given }) => {
    const read = (): unknown =>
      readOnly(bytes(given), TAG.sequence, (reader) => parseInteger(reader.read(TAG.integer)));
    expect(read).toThrow(expect.objectContaining({ code: 'asn1-malformed' }));
  });

  test('refuses deep nesting before the stack overflows', () => {
    const deep = Array.from({ length: 5000 }).reduce<Uint8Array>(
      (inner) => der.sequence(inner),
      der.nothing(),
    );
    expect(() => walk(deep)).toThrow(expect.objectContaining({ code: 'asn1-malformed' }));
  });

  test('reads a valid document to its last byte', () => {
    expect(
      readOnly(bytes('30 03 02 01 05'), TAG.sequence, (reader) => parseInteger(reader.read(TAG.integer))),
    ).toBe(5n);
  });
});

describe('value parsers', () => {
  const refused = [
    { name: 'BOOLEAN of 1', given: '01 01 01', parse: parseBoolean },
    { name: 'BOOLEAN of two bytes', given: '01 02 ff ff', parse: parseBoolean },
    { name: 'INTEGER without content', given: '02 00', parse: parseInteger },
    { name: 'INTEGER with a leading zero', given: '02 02 00 7f', parse: parseInteger },
    { name: 'INTEGER with leading ones', given: '02 02 ff 80', parse: parseInteger },
    { name: 'NULL with content', given: '05 01 00', parse: parseNull },
    { name: 'BIT STRING without its count of unused bits', given: '03 00', parse: parseBitString },
    { name: 'BIT STRING with 8 unused bits', given: '03 02 08 00', parse: parseBitString },
    { name: 'BIT STRING with unused bits set', given: '03 02 04 0f', parse: parseBitString },
    { name: 'empty BIT STRING with 3 unused bits', given: '03 01 03', parse: parseBitString },
    { name: 'OID without content', given: '06 00', parse: parseOid },
    { name: 'truncated OID', given: '06 02 2a 86', parse: parseOid },
    { name: 'OID with a padded arc', given: '06 03 2a 80 01', parse: parseOid },
    {
      name: 'OID with an arc of more than 48 bits',
      given: '06 09 2a ff ff ff ff ff ff ff 7f',
      parse: parseOid,
    },
    { name: 'PrintableString with @', given: '13 01 40', parse: parseText },
    { name: 'IA5String with a byte above 0x7f', given: '16 01 80', parse: parseText },
    { name: 'UTF8String that is not valid UTF-8', given: '0c 01 ff', parse: parseText },
    { name: 'BMPString that ends within a character', given: '1e 01 41', parse: parseText },
    { name: 'INTEGER in place of a string', given: '02 01 41', parse: parseText },
    {
      name: 'small INTEGER above its limit',
      given: '02 01 05',
      parse: (each: ReturnType<typeof elementOf>) => parseSmallInteger(each, 4),
    },
    {
      name: 'small INTEGER below zero',
      given: '02 01 ff',
      parse: (each: ReturnType<typeof elementOf>) => parseSmallInteger(each, 4),
    },
    {
      name: 'small INTEGER of nine bytes',
      given: '02 09 01 00 00 00 00 00 00 00 00',
      parse: (each: ReturnType<typeof elementOf>) => parseSmallInteger(each, 4),
    },
  ];
  test.each(refused)('refuse this encoding: $name', ({ given, parse }) => {
    expect(() => parse(elementOf(bytes(given)))).toThrow(expect.objectContaining({ code: 'asn1-malformed' }));
  });

  const times = [
    { name: 'UTCTime without seconds', given: der.text('2601010000Z', 0x17) },
    { name: 'UTCTime with an offset', given: der.text('260101000000+0100', 0x17) },
    { name: 'the date 31 February', given: der.text('20260231000000Z', 0x18) },
    { name: 'the time of day 24:00', given: der.text('20260101240000Z', 0x18) },
    { name: 'a time with fractions of a second', given: der.text('20260101000000.5Z', 0x18) },
    { name: 'a time with the tag of a PrintableString', given: der.text('20260101000000Z', 0x13) },
  ];
  test.each(times)('parseTime() refuses $name', ({ given }) => {
    expect(() => parseTime(elementOf(given))).toThrow(expect.objectContaining({ code: 'asn1-malformed' }));
  });

  test('parseTime() reads two-digit years as 1950 to 2049', () => {
    expect(new Date(parseTime(elementOf(der.text('491231235959Z', 0x17)))).toISOString()).toBe(
      '2049-12-31T23:59:59.000Z',
    );
    expect(new Date(parseTime(elementOf(der.text('500101000000Z', 0x17)))).toISOString()).toBe(
      '1950-01-01T00:00:00.000Z',
    );
  });

  test('parseText() reads all string types', () => {
    expect(parseText(elementOf(der.text('Zürich')))).toBe('Zürich');
    expect(parseText(elementOf(bytes('1e 04 00 41 00 42')))).toBe('AB');
    expect(parseText(elementOf(bytes('14 01 e9')))).toBe('é');
  });
});

describe('round trips and random input', () => {
  test('parseInteger() returns the encoded integer', () => {
    fc.assert(
      fc.property(
        fc.bigInt({ min: 0n, max: 2n ** 2048n }),
        (value) => parseInteger(elementOf(der.integer(value))) === value,
      ),
    );
  });

  test('parseInteger() reads a negative integer as two’s complement', () => {
    expect(parseInteger(elementOf(bytes('02 01 80')))).toBe(-128n);
    expect(parseInteger(elementOf(bytes('02 02 ff 7f')))).toBe(-129n);
  });

  test('parseOid() returns the encoded object identifier', () => {
    const arc = fc.integer({ min: 0, max: 2 ** 40 });
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 2 }),
        fc.integer({ min: 0, max: 39 }),
        fc.array(arc),
        (root, second, rest) => {
          const dotted = [root, second, ...rest].join('.');
          return parseOid(elementOf(der.oid(dotted))) === dotted;
        },
      ),
    );
  });

  test('parseTime() returns the encoded time', () => {
    const second = fc.integer({ min: Date.UTC(1950, 0, 1) / 1000, max: Date.UTC(9999, 11, 31) / 1000 });
    fc.assert(fc.property(second, (at) => parseTime(elementOf(der.time(at * 1000))) === at * 1000));
  });

  test('arbitrary bytes are either parsed or refused with an error code', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (input) => {
        try {
          walk(input);
        } catch (error) {
          expect(error).toBeInstanceOf(Asn1Error);
        }
      }),
      { numRuns: 2000 },
    );
  });

  test('mutations of a valid structure are either parsed or refused with an error code', () => {
    const seed = der.sequence(
      der.integer(65537),
      der.oid('1.2.840.113549.1.1.10'),
      der.time(0),
      der.bits(Uint8Array.of(1)),
      der.explicit(0, der.boolean(true)),
    );
    const result = fuzz({ seeds: [seed], parse: walk, codes: ['asn1-'] });
    expect(result.refused).toBeGreaterThan(0);
  });
});
