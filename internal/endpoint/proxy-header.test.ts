import { describe, expect, test } from '@jest/globals';
import { encodeProxyHeader, readProxyHeader } from './proxy-header.ts';

const header = Buffer.from(encodeProxyHeader('203.0.113.9', 50_000));
const ipv6Header = Buffer.from(encodeProxyHeader('2001:db8::7', 50_000));

describe('readProxyHeader()', () => {
  test('reads the address of an IPv4 and of an IPv6 client, and an empty address for other clients', () => {
    expect(readProxyHeader(Buffer.concat([header, Buffer.from('hello')]))).toEqual({
      kind: 'header',
      clientAddress: '203.0.113.9',
      sizeBytes: 28,
    });
    expect(readProxyHeader(Buffer.concat([ipv6Header, Buffer.from('hello')]))).toEqual({
      kind: 'header',
      clientAddress: '2001:db8::7',
      sizeBytes: 52,
    });
    for (const other of ['', 'unix'])
      expect(readProxyHeader(encodeProxyHeader(other, 1))).toEqual({
        kind: 'header',
        clientAddress: '',
        sizeBytes: 16,
      });
  });

  test('reads the header of 203.0.113.9:50000 that the specification defines', () => {
    expect(header.toString('hex')).toBe(
      '0d0a0d0a000d0a515549540a' + '2111000c' + 'cb007109' + '00000000' + 'c350' + '0000',
    );
  });

  test('reads the header of [2001:db8::7]:50000 that the specification defines', () => {
    expect(ipv6Header.toString('hex')).toBe(
      '0d0a0d0a000d0a515549540a' +
        '21210024' +
        '20010db8' +
        '0'.repeat(23) +
        '7' +
        '0'.repeat(32) +
        'c3500000',
    );
  });

  test('reports a header of which only the first bytes have arrived as incomplete', () => {
    for (const whole of [header, ipv6Header])
      for (let bytes = 1; bytes < whole.length; bytes++)
        expect(readProxyHeader(whole.subarray(0, bytes))).toEqual({ kind: 'incomplete' });
  });

  test('finds no header in TLS, in other bytes and in empty input', () => {
    for (const bytes of [
      Buffer.of(0x16, 3, 1),
      Buffer.from('PROXY TCP4 '),
      Buffer.of(0x0d, 0x0a, 0x0d, 0x0b),
      Buffer.alloc(0),
    ])
      expect(readProxyHeader(bytes)).toEqual({ kind: 'none' });
  });

  test.each([
    { name: 'an unknown version', at: 12, value: 0x11 },
    { name: 'an unknown command', at: 12, value: 0x22 },
    { name: 'UDP', at: 13, value: 0x12 },
    { name: 'IPv6 with the length of IPv4', at: 13, value: 0x21 },
    { name: 'a length with extensions', at: 15, value: 13 },
    { name: 'a length of addresses that is too long', at: 14, value: 0xff },
  ])('refuses $name', ({ at, value }) => {
    expect(() => readProxyHeader(header.map((byte, index) => (index === at ? value : byte)))).toThrow(
      SyntaxError,
    );
  });
});
