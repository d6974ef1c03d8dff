import { describe, expect, test } from '@jest/globals';
import { readFixture, TestAmd, TestIntel } from '../../testing/evidence/index.ts';
import { generateKey, issueCertificate, issueCrl, TEST_NOW_MS } from '../../testing/pki/index.ts';
import { amdTrust } from '../snp/index.ts';
import {
  keepCurrentCrls,
  readCollateralFile,
  verifyBundle,
  VerifiedBundle,
  type CollateralItem,
} from './index.ts';

const DAY_MS = 86_400_000;
const amd = new TestAmd('Milan');
const intel = new TestIntel();
const forger = new TestIntel();
const otherAmd = new TestAmd('Milan');

const certificate = (der: Uint8Array): CollateralItem => ({ kind: 'certificate', der });
const crl = (options: Parameters<typeof issueCrl>[0]): CollateralItem => ({
  kind: 'crl',
  der: issueCrl(options),
});
/** A document that was issued this many days ago. */
const ago = (days: number) => ({ thisUpdateMs: TEST_NOW_MS - days * DAY_MS });
const issued =
  (days: number, more: Record<string, unknown> = {}) =>
  (document: Record<string, unknown>): void => {
    const issueDate = new Date(TEST_NOW_MS - days * DAY_MS).toISOString().replace('.000', '');
    Object.assign(document, { issueDate, ...more });
  };

const authorities = [intel.tcbSigner, intel.authority, intel.root].map(({ der }) => certificate(der));
const lists = (days = 1) => ({
  amd: crl({ issuer: amd.ark, ...ago(days) }),
  root: crl({ issuer: intel.root, ...ago(days) }),
  platform: crl({ issuer: intel.authority, ...ago(days) }),
});
const documents = (days = 1) => ({
  tcb: { kind: 'tcb-info', ...intel.tcbInfo(issued(days)) } as const,
  qe: { kind: 'qe-identity', ...intel.qeIdentity(issued(days)) } as const,
});
const whole = (replaced: Partial<Record<string, CollateralItem>> = {}): readonly CollateralItem[] => [
  ...authorities,
  ...Object.values({ ...lists(), ...documents(), ...replaced }).filter((item) => item !== undefined),
];

function check(items: readonly CollateralItem[], before: readonly CollateralItem[] = [], seen = 17): number {
  const trust = { amd: amd.trust, intel: intel.trust };
  const previous = new VerifiedBundle({ assembledMs: 0, items: before }, seen);
  return verifyBundle({ assembledMs: 1, items }, { trust, nowMs: TEST_NOW_MS, previous }).evaluationNumber;
}

describe('verifyBundle()', () => {
  test('accepts documents of both manufacturers and returns the evaluation number of Intel’s documents', () => {
    expect(check(whole(), [], 3)).toBe(17);
    expect(check([...whole(), certificate(amd.chip().der), certificate(amd.ask.der)])).toBe(17);
  });

  test('accepts a chip certificate whose CAs are built into the program', () => {
    const [vcek] = readCollateralFile(readFixture('snp', 'milan.vcek'));
    const trust = { amd: amdTrust(), intel: intel.trust };
    const previous = VerifiedBundle.load({ bundle: undefined, evaluationNumber: 4 });
    const given = { assembledMs: 1, items: vcek === undefined ? [] : [vcek] };
    const options = { trust, nowMs: Date.UTC(2025, 0, 1), previous };
    expect(verifyBundle(given, options)).toEqual({ ...given, evaluationNumber: 4 });
  });

  /** Creates a CA with the name of a real CA and with a new key. */
  const namesake = () =>
    issueCertificate({
      name: [
        ['CN', 'Intel SGX PCK Platform CA'],
        ['O', 'Intel Corporation'],
      ],
      key: generateKey('p256'),
      issuer: intel.root,
      ca: {},
      keyUsage: [5, 6],
    });
  const untrusted = issueCertificate({ name: [['CN', 'x']], key: generateKey('p256') });
  test.each<{ name: string; code: string; given: () => readonly CollateralItem[] }>([
    {
      name: 'a CRL of a platform CA signed by a CA outside Intel’s chain',
      code: 'x509-signature',
      given: () => whole({ platform: crl({ issuer: forger.authority }) }),
    },
    {
      name: 'a CRL of a platform CA past its next update',
      code: 'x509-crl-expired',
      given: () => whole({ platform: crl({ issuer: intel.authority, nextUpdateMs: TEST_NOW_MS - 1 }) }),
    },
    {
      name: 'a CRL whose issuer is missing',
      code: 'x509-crl-issuer',
      given: () => whole({ platform: crl({ issuer: intel.processorAuthority }) }),
    },
    {
      name: 'a CRL signed by a CA outside AMD’s chain',
      code: 'x509-signature',
      given: () => whole({ amd: crl({ issuer: otherAmd.ark }) }),
    },
    {
      name: 'a CRL and its issuer, both under an untrusted AMD root',
      code: 'x509-root-untrusted',
      given: () => [certificate(otherAmd.ark.der), crl({ issuer: otherAmd.ark })],
    },
    {
      name: 'a chip certificate signed by a CA outside AMD’s chain',
      code: 'x509-signature',
      given: () => [certificate(otherAmd.chip().der)],
    },
    {
      name: 'a CA certificate signed outside Intel’s chain',
      code: 'x509-signature',
      given: () => [...whole(), certificate(forger.authority.der)],
    },
    {
      name: 'an expired certificate',
      code: 'x509-expired',
      given: () => [certificate(amd.chip({ certificate: { notAfterMs: TEST_NOW_MS - 1 } }).der)],
    },
    {
      name: 'a certificate that neither AMD nor Intel issued',
      code: 'collateral-malformed',
      given: () => [...whole(), certificate(untrusted.der)],
    },
    {
      name: 'more CA certificates than the limit',
      code: 'collateral-malformed',
      given: () => [...whole(), ...Array.from({ length: 63 }, () => certificate(namesake().der))],
    },
    {
      name: 'documents signed with a key that is not Intel’s',
      code: 'tdx-collateral-signature',
      given: () => whole({ tcb: { kind: 'tcb-info', ...forger.tcbInfo() } }),
    },
    {
      name: 'documents whose signing certificate was revoked',
      code: 'x509-revoked',
      given: () => whole({ root: crl({ issuer: intel.root, revoked: [intel.tcbSigner.serial] }) }),
    },
    {
      name: 'an evaluation number below the highest one used before',
      code: 'tdx-evaluation-number',
      given: () =>
        whole({
          qe: { kind: 'qe-identity', ...intel.qeIdentity(issued(1, { tcbEvaluationDataNumber: 16 })) },
        }),
    },
  ])('refuses $name', ({ given, code }) => {
    expect(() => check(given())).toThrow(expect.objectContaining({ code }));
  });

  test.each([
    { name: 'a CRL of AMD', given: whole({ amd: lists(3).amd }) },
    { name: 'a CRL of Intel’s root CA', given: whole({ root: lists(3).root }) },
    { name: 'a CRL of a platform CA', given: whole({ platform: lists(3).platform }) },
    { name: 'a TCB info with the same evaluation number', given: whole({ tcb: documents(3).tcb }) },
    { name: 'a QE identity with the same evaluation number', given: whole({ qe: documents(3).qe }) },
  ])('refuses $name, genuine and current, if it is older than the active one', ({ given }) => {
    expect(check(given)).toBe(17);
    const active = whole({ ...lists(2), ...documents(2) });
    expect(() => check(given, active)).toThrow(expect.objectContaining({ code: 'collateral-older' }));
    expect(check(whole(), active)).toBe(17);
  });

  test('accepts documents of the same age as the active ones, and documents of any age for other platforms', () => {
    expect(check(whole(), whole())).toBe(17);
    const other = { kind: 'tcb-info', ...intel.tcbInfo(issued(9, { fmspc: '00A067110000' })) } as const;
    expect(check([...whole(), other], whole())).toBe(17);
  });
});

describe('keepCurrentCrls()', () => {
  test('keeps the current CRLs of CAs for which the new documents have no CRL, and nothing else', () => {
    const before = whole();
    const { amd: newer } = lists(0);
    const of = (items: readonly CollateralItem[]) => new VerifiedBundle({ assembledMs: 0, items }, 17);
    const merge = (items: readonly CollateralItem[], nowMs: number) =>
      keepCurrentCrls(of(before), of(items), nowMs).items;
    const merged = merge([newer], TEST_NOW_MS);
    expect(merged[0]).toBe(newer);
    expect(merged.slice(1)).toEqual(before.filter(({ kind }) => kind === 'crl').slice(1));
    expect(merge([newer], TEST_NOW_MS + 366 * DAY_MS)).toEqual([newer]);
    expect(merge(whole(), TEST_NOW_MS)).toHaveLength(before.length);
  });
});
