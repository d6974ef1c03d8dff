import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { X509Certificate } from 'node:crypto';
import { createTestIdentity } from '../testing/atls/index.ts';
import { fuzz } from '../testing/fuzz.ts';
import { p256SpkiOf } from './spki.ts';
import {
  encodeAlert,
  encodeEvidence,
  encodeHello,
  HEADER_BYTES,
  MAX_DOCUMENT_BYTES,
  parseAlert,
  parseEvidence,
  parseHeader,
  parseHello,
  type Alert,
} from './wire.ts';

const formats = fc.uniqueArray(fc.integer({ min: 1, max: 0xffff }), { minLength: 1, maxLength: 16 });
const nonce = fc.uint8Array({ minLength: 32, maxLength: 32 });

const certDer = new X509Certificate((await createTestIdentity()).certPem).raw;

describe('aTLS frames', () => {
  test('parseHello() returns what encodeHello() encoded', () => {
    fc.assert(
      fc.property(formats, nonce, (accepts, fresh) => {
        const read = parseHello(bodyOf('hello', encodeHello({ accepts, nonce: fresh })));
        expect(read.accepts).toEqual(accepts);
        expect(Buffer.compare(read.nonce, fresh)).toBe(0);
      }),
    );
  });

  test('parseEvidence() returns what encodeEvidence() encoded', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 0xffff }),
        fc.uint8Array({ maxLength: 4096 }),
        (format, document) => {
          const read = parseEvidence(bodyOf('evidence', encodeEvidence({ format, document })));
          expect(read.format).toBe(format);
          expect(Buffer.compare(read.document, document)).toBe(0);
        },
      ),
    );
  });

  test('encodeEvidence() accepts a document of the largest size and refuses a document with one byte more', () => {
    const largest = encodeEvidence({ format: 2, document: new Uint8Array(MAX_DOCUMENT_BYTES) });
    expect(parseHeader(largest.subarray(0, HEADER_BYTES)).bodyBytes).toBe(65_536);
    expect(() => encodeEvidence({ format: 2, document: new Uint8Array(MAX_DOCUMENT_BYTES + 1) })).toThrow(
      RangeError,
    );
  });

  const alerts: readonly [Alert, number][] = [
    ['protocol', 1],
    ['tooLarge', 2],
    ['timeout', 3],
    ['evidenceRejected', 4],
    ['internal', 5],
    ['busy', 6],
    ['noCommonFormat', 7],
  ];
  test.each(alerts)('the alert `%s` has code %d in every version', (alert, code) => {
    expect([...bodyOf('alert', encodeAlert(alert))]).toEqual([code]);
    expect(parseAlert(Uint8Array.of(code))).toBe(alert);
  });

  test('parseAlert() returns undefined for an unknown code', () => {
    expect(parseAlert(Uint8Array.of(8))).toBeUndefined();
  });
});

describe('untrusted frames and certificates', () => {
  const hello = encodeHello({ accepts: [1, 2, 3], nonce: new Uint8Array(32) });
  const targets = [
    {
      name: 'the header of a frame',
      seeds: [hello.subarray(0, HEADER_BYTES)],
      parse: (input: Uint8Array) =>
        parseHeader(Buffer.concat([input, Buffer.alloc(HEADER_BYTES)]).subarray(0, HEADER_BYTES)),
    },
    { name: 'the body of a HELLO', seeds: [hello.subarray(HEADER_BYTES)], parse: parseHello },
    { name: 'the body of EVIDENCE', seeds: [Buffer.from('0002c0ffee', 'hex')], parse: parseEvidence },
    { name: 'the body of an alert', seeds: [Uint8Array.of(4)], parse: parseAlert },
    { name: 'a certificate', seeds: [certDer], parse: p256SpkiOf },
  ];
  test.each(targets)(
    'arbitrary bytes as $name are either parsed or refused with an error code',
    ({ seeds, parse }) => {
      const { cases, refused } = fuzz({ seeds, parse, codes: ['atls-'] });
      expect(cases).toBeGreaterThan(0);
      expect(refused).toBeGreaterThan(0);
    },
    1_800_000,
  );
});

function bodyOf(kind: string, frame: Uint8Array): Uint8Array {
  const header = parseHeader(frame.subarray(0, HEADER_BYTES));
  expect(header).toEqual({ kind, bodyBytes: frame.length - HEADER_BYTES });
  return frame.subarray(HEADER_BYTES);
}
