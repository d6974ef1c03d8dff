import { describe, expect, test } from '@jest/globals';
import { readFixture } from '../../testing/evidence/index.ts';
import { fuzz } from '../../testing/fuzz.ts';
import { generateKey, issueCertificate, issueCrl, TEST_NOW_MS, toPem } from '../../testing/pki/index.ts';
import {
  ageOf,
  collateralFrom,
  encodeBundle,
  parseBundle,
  readCollateralFile,
  withoutDuplicates,
} from './index.ts';

const authority = issueCertificate({
  name: [
    ['O', 'Advanced Micro Devices'],
    ['CN', 'ARK-Test'],
  ],
  key: generateKey('p384'),
  ca: {},
  keyUsage: [5, 6],
});
const crl = issueCrl({ issuer: authority });
const items = [...readCollateralFile(readFixture('tdx', 'v4.collateral')), ...readCollateralFile(crl)];

describe('a file', () => {
  test.each([
    { name: 'a certificate', given: () => authority.der, want: ['certificate'] },
    { name: 'a CRL', given: () => crl, want: ['crl'] },
    {
      name: 'certificates in PEM with empty lines',
      given: () => Buffer.from(`${toPem(authority.der)}\n${toPem(authority.der)}\n`),
      want: ['certificate', 'certificate'],
    },
    {
      name: 'both kinds in PEM, with words around them and other line ends',
      given: () =>
        Buffer.from(
          `subject=CN = Test\n${toPem(crl, 'X509 CRL')}issuer:\n${toPem(authority.der)}\n`.replaceAll(
            '\n',
            '\r\n',
          ),
        ),
      want: ['crl', 'certificate'],
    },
    { name: 'a CRL in PEM', given: () => Buffer.from(toPem(crl, 'X509 CRL')), want: ['crl'] },
    {
      name: 'TCB info as Intel answers',
      given: () => readFixture('tdx', 'v4-tail.tcb-info'),
      want: ['tcb-info'],
    },
    {
      name: 'a QE identity as Intel answers',
      given: () => readFixture('tdx', 'v4-tail.qe-identity'),
      want: ['qe-identity'],
    },
  ])('with $name is told by its content', ({ given, want }) => {
    expect(readCollateralFile(new Uint8Array(given())).map(({ kind }) => kind)).toEqual(want);
  });

  test('of Intel’s answer keeps the text that was signed, to the byte', () => {
    const answer = Buffer.from(readFixture('tdx', 'v4-tail.tcb-info')).toString('utf8');
    const [item] = readCollateralFile(readFixture('tdx', 'v4-tail.tcb-info'));
    expect(
      item !== undefined && 'text' in item && answer.startsWith(`{"tcbInfo":${item.text},"signature":"`),
    ).toBe(true);
  });

  test.each([
    { name: 'nothing', given: '' },
    { name: 'text', given: 'hello' },
    { name: 'JSON of no known form', given: '{"a":1}' },
    { name: 'an answer without signature', given: '{"tcbInfo":{}}' },
    {
      name: 'an answer with more after its signature',
      given: `{"tcbInfo":{},"signature":"${'00'.repeat(64)}","more":1}`,
    },
    { name: 'DER that is neither', given: '0\u0003\u0002\u0001\u0005' },
    {
      name: 'PEM whose second block has no end',
      given: `${toPem(crl, 'X509 CRL')}-----BEGIN X509 CRL-----\n`,
    },
    {
      name: 'PEM whose first block has no end',
      given: `-----BEGIN X509 CRL-----\n${toPem(crl, 'X509 CRL')}`,
    },
    { name: 'more PEM than anybody needs', given: toPem(authority.der).repeat(17) },
    {
      name: 'PEM of one kind known and one not',
      given: `${toPem(crl, 'X509 CRL')}${toPem(crl, 'PRIVATE KEY')}`,
    },
    { name: 'PEM of another kind', given: toPem(crl, 'PRIVATE KEY') },
  ])('of $name is refused', ({ given }) => {
    expect(() => readCollateralFile(new Uint8Array(Buffer.from(given)))).toThrow(
      expect.objectContaining({ code: 'collateral-malformed' }),
    );
  });
});

describe('a bundle', () => {
  const text = encodeBundle({ assembledMs: TEST_NOW_MS, items });

  test('is parsed as it was encoded', () => {
    expect(parseBundle(text)).toEqual({ assembledMs: TEST_NOW_MS, items });
    expect(readCollateralFile(new Uint8Array(Buffer.from(text)))).toEqual(items);
  });

  test('holds each document once, sorted by maker for the validators', () => {
    const { snp, tdx } = collateralFrom([...items, ...items]);
    expect(snp).toEqual({ certificates: [], crls: [crl] });
    expect(tdx?.crls).toHaveLength(2);
    expect(tdx?.tcbInfos).toHaveLength(1);
    expect(withoutDuplicates([...items, ...items])).toHaveLength(withoutDuplicates(items).length);
  });

  test('shows the age of its documents', () => {
    const ages = items.map((item) => ageOf(item, Date.UTC(2025, 6, 25)));
    expect(ages.find(({ what }) => what.startsWith('TCB info'))).toMatchObject({
      state: 'expired',
      ageDays: 35,
    });
    expect(ages.at(-1)).toMatchObject({
      state: 'future',
      what: 'CRL of O=Advanced Micro Devices, CN=ARK-Test',
    });
    expect(ageOf({ kind: 'certificate', der: authority.der }, TEST_NOW_MS)).toMatchObject({
      state: 'current',
      ageDays: 365,
    });
  });

  test.each([
    { name: 'of another version', given: text.replace('"version": 1', '"version": 2') },
    { name: 'with an unknown key', given: text.replace('"version": 1', '"version": 1, "more": 1') },
    {
      name: 'with base64 of spare bits',
      given: JSON.stringify({
        version: 1,
        assembled: '2026-01-01T00:00:00Z',
        items: [{ kind: 'crl', der: 'AB==' }],
      }),
    },
    { name: 'that is cut off', given: text.slice(0, -10) },
  ])('$name is refused', ({ given }) => {
    expect(() => parseBundle(given)).toThrow(expect.objectContaining({ code: 'collateral-malformed' }));
  });

  test('is read or refused by code, whatever the bytes are', () => {
    const parse = (input: Uint8Array) => parseBundle(Buffer.from(input).toString('utf8'));
    expect(fuzz({ seeds: [Buffer.from(text)], parse, codes: ['collateral-'] }).refused).toBeGreaterThan(0);
  });
});
