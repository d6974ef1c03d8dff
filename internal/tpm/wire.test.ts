import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { TpmError } from './errors.ts';
import { WireReader, WireWriter } from './wire.ts';

describe('WireReader', () => {
  const hostile = [
    { name: 'a u8 at the end of the input', read: (r: WireReader) => r.u8('x'), bytes: [] },
    { name: 'a u16 with one byte left', read: (r: WireReader) => r.u16('x'), bytes: [1] },
    { name: 'a u32 with three bytes left', read: (r: WireReader) => r.u32('x'), bytes: [1, 2, 3] },
    {
      name: 'a u64 with seven bytes left',
      read: (r: WireReader) => r.u64('x'),
      bytes: [1, 2, 3, 4, 5, 6, 7],
    },
    { name: 'a size that exceeds the input', read: (r: WireReader) => r.sized('x', 300), bytes: [1, 0, 1] },
    { name: 'a size above its limit', read: (r: WireReader) => r.sized('x', 1), bytes: [0, 2, 1, 1] },
    { name: 'trailing bytes', read: (r: WireReader) => r.end(), bytes: [0] },
  ];
  test.each(hostile)('refuses $name', ({ read, bytes }) => {
    const reader = new WireReader(Uint8Array.from(bytes), 'a test');
    expect(() => read(reader)).toThrow(expect.objectContaining({ code: 'tpm-malformed' }));
  });

  test('returns all values that WireWriter encoded', () => {
    fc.assert(
      fc.property(
        fc.record({
          a: fc.nat(0xff),
          b: fc.nat(0xffff),
          c: fc.nat(0xffffffff),
          d: fc.bigInt({ min: 0n, max: 0xffffffffffffffffn }),
        }),
        fc.uint8Array({ maxLength: 64 }),
        ({ a, b, c, d }, bytes) => {
          const wire = new WireWriter().u8(a).u16(b).u32(c).u64(d).sized(bytes).finish();
          const reader = new WireReader(wire, 'a test');
          expect([reader.u8('a'), reader.u16('b'), reader.u32('c'), reader.u64('d')]).toEqual([a, b, c, d]);
          expect(reader.sized('bytes', 64)).toEqual(bytes);
          reader.end();
        },
      ),
    );
  });

  test('returns copies of the input', () => {
    const source = Uint8Array.of(1, 2, 3);
    const read = new WireReader(source, 'a test').bytes(3, 'all');
    source[0] = 9;
    expect(read).toEqual(Uint8Array.of(1, 2, 3));
  });

  test('throws only its coded error for arbitrary reads of arbitrary bytes', () => {
    const reads = fc.array(fc.constantFrom('u8', 'u16', 'u32', 'u64', 'sized', 'bytes', 'end'), {
      maxLength: 9,
    });
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), reads, (bytes, calls) => {
        const reader = new WireReader(bytes, 'a test');
        try {
          for (const call of calls) {
            if (call === 'sized') reader.sized('x', 20);
            else if (call === 'bytes') reader.bytes(7, 'x');
            else if (call === 'end') reader.end();
            else reader[call as 'u8']('x');
          }
        } catch (error) {
          expect(error).toBeInstanceOf(TpmError);
        }
        expect(reader.offset).toBeLessThanOrEqual(bytes.length);
      }),
    );
  });
});

test('WireWriter refuses numbers that are out of range', () => {
  expect(() => new WireWriter().u8(256)).toThrow(RangeError);
  expect(() => new WireWriter().u16(-1)).toThrow('out of range'); // not RangeError: Jest has another class of that name
  expect(() => new WireWriter().sized(new Uint8Array(0x10000))).toThrow('out of range');
});
