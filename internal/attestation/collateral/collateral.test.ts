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

describe('readCollateralFile()', () => {
  test.each([
    { name: 'a certificate', given: () => authority.der, want: ['certificate'] },
    { name: 'a CRL', given: () => crl, want: ['crl'] },
    {
      name: 'certificates in PEM with empty lines',
      given: () => Buffer.from(`${toPem(authority.der)}\n${toPem(authority.der)}\n`),
      want: ['certificate', 'certificate'],
    },
    {
      name: 'certificates and CRLs in PEM, with CRLF line ends and text around them',
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
      name: 'a TCB info in the format of Intel’s PCS',
      given: () => readFixture('tdx', 'v4-tail.tcb-info'),
      want: ['tcb-info'],
    },
    {
      name: 'a QE identity in the format of Intel’s PCS',
      given: () => readFixture('tdx', 'v4-tail.qe-identity'),
      want: ['qe-identity'],
    },
  ])('recognizes by content: $name', ({ given, want }) => {
    expect(readCollateralFile(new Uint8Array(given())).map(({ kind }) => kind)).toEqual(want);
  });

  test('keeps the signed text of a PCS response unchanged to the byte', () => {
    const answer = Buffer.from(readFixture('tdx', 'v4-tail.tcb-info')).toString('utf8');
    const [item] = readCollateralFile(readFixture('tdx', 'v4-tail.tcb-info'));
    expect(
      item !== undefined && 'text' in item && answer.startsWith(`{"tcbInfo":${item.text},"signature":"`),
    ).toBe(true);
  });

  test.each([
    { name: 'an empty file', given: '' },
    { name: 'a file of plain text', given: 'hello' },
    { name: 'JSON of an unknown format', given: '{"a":1}' },
    { name: 'a PCS response without a signature', given: '{"tcbInfo":{}}' },
    {
      name: 'a PCS response with a field after its signature',
      given: `{"tcbInfo":{},"signature":"${'00'.repeat(64)}","more":1}`,
    },
    { name: 'DER that is neither a certificate nor a CRL', given: '0\u0003\u0002\u0001\u0005' },
    {
      name: 'PEM whose second block has no END line',
      given: `${toPem(crl, 'X509 CRL')}-----BEGIN X509 CRL-----\n`,
    },
    {
      name: 'PEM whose first block has no END line',
      given: `-----BEGIN X509 CRL-----\n${toPem(crl, 'X509 CRL')}`,
    },
    { name: 'more PEM blocks than the limit', given: toPem(authority.der).repeat(17) },
    {
      name: 'PEM with a CRL and a block of an unknown label',
      given: `${toPem(crl, 'X509 CRL')}${toPem(crl, 'PRIVATE KEY')}`,
    },
    { name: 'PEM with only a private key', given: toPem(crl, 'PRIVATE KEY') },
  ])('refuses $name', ({ given }) => {
    expect(() => readCollateralFile(new Uint8Array(Buffer.from(given)))).toThrow(
      expect.objectContaining({ code: 'collateral-malformed' }),
    );
  });
});

describe('parseBundle()', () => {
  const text = encodeBundle({ assembledMs: TEST_NOW_MS, items });

  test('returns what encodeBundle() encoded', () => {
    expect(parseBundle(text)).toEqual({ assembledMs: TEST_NOW_MS, items });
    expect(readCollateralFile(new Uint8Array(Buffer.from(text)))).toEqual(items);
  });

  test('collateralFrom() sorts the documents of a bundle by manufacturer, without duplicates', () => {
    const { snp, tdx } = collateralFrom([...items, ...items]);
    expect(snp).toEqual({ certificates: [], crls: [crl] });
    expect(tdx?.crls).toHaveLength(2);
    expect(tdx?.tcbInfos).toHaveLength(1);
    expect(withoutDuplicates([...items, ...items])).toHaveLength(withoutDuplicates(items).length);
  });

  test('ageOf() returns the age of each document in a bundle', () => {
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
    { name: 'a bundle of another version', given: text.replace('"version": 1', '"version": 2') },
    { name: 'a bundle with an unknown key', given: text.replace('"version": 1', '"version": 1, "more": 1') },
    {
      name: 'a bundle with non-canonical base64',
      given: JSON.stringify({
        version: 1,
        assembled: '2026-01-01T00:00:00Z',
        items: [{ kind: 'crl', der: 'AB==' }],
      }),
    },
    { name: 'a truncated bundle', given: text.slice(0, -10) },
  ])('refuses $name', ({ given }) => {
    expect(() => parseBundle(given)).toThrow(expect.objectContaining({ code: 'collateral-malformed' }));
  });

  test('any input is either parsed or refused with an error code', () => {
    const parse = (input: Uint8Array) => parseBundle(Buffer.from(input).toString('utf8'));
    expect(fuzz({ seeds: [Buffer.from(text)], parse, codes: ['collateral-'] }).refused).toBeGreaterThan(0);
  });
});
