import { beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  readFixture,
  TestAmd,
  type TestChipOptions,
  type TestReportOptions,
} from '../../testing/evidence/index.ts';
import { fuzz } from '../../testing/fuzz.ts';
import { generateKey, issueCrl, TEST_NOW_MS, type TestKey } from '../../testing/pki/index.ts';
import { AttestationError } from '../errors.ts';
import type { Policy } from '../rules.ts';
import { CertificateCache } from '../x509/index.ts';
import {
  amdTrust,
  certificatesFromTable,
  decodeSnpEvidence,
  encodeSnpEvidence,
  verifySnpEvidence,
  parseReport,
  SnpValidator,
  type SnpCollateral,
  type SnpProduct,
  type SnpRules,
  type SnpTcb,
} from './index.ts';

const BINDING = new Uint8Array(64).fill(0xb1);
const LAUNCH = new Uint8Array(48).fill(0xa1);
const DAY_MS = 86_400_000;

let amd: Readonly<Record<'Milan' | 'Genoa' | 'Turin', TestAmd>>;
let key: TestKey;

beforeAll(() => {
  amd = { Milan: new TestAmd('Milan'), Genoa: new TestAmd('Genoa'), Turin: new TestAmd('Turin') };
  key = generateKey('p384');
});

interface Given {
  readonly maker?: TestAmd;
  readonly report?: Partial<TestReportOptions>;
  readonly chip?: TestChipOptions;
  readonly rules?: Partial<SnpRules>;
  readonly policy?: Partial<Policy>;
  readonly collateral?: Partial<SnpCollateral>;
  readonly certificates?: (chip: Uint8Array) => Uint8Array[];
  readonly binding?: Uint8Array;
  readonly trust?: TestAmd;
}

function strictRules(overrides: Partial<SnpRules> = {}): SnpRules {
  const low = { bootloader: 1, tee: 0, snp: 1, microcode: 1 };
  return {
    minimumTcb: new Map<SnpProduct, SnpTcb>([
      ['Milan', low],
      ['Genoa', low],
      ['Turin', { fmc: 1, ...low }],
    ]),
    allowDebug: false,
    allowMigrationAgent: false,
    allowSmt: true,
    allowProvisionalFirmware: false,
    maxVmpl: 0,
    cspIds: [],
    revocation: 'optional',
    maxCollateralAgeMs: 30 * DAY_MS,
    ...overrides,
  };
}

function policyWith(rules: Partial<SnpRules> = {}, overrides: Partial<Policy> = {}): Policy {
  return {
    version: 'test@1',
    profile: 'measured',
    registers: new Map([['launch', { accepted: [Buffer.from(LAUNCH).toString('hex')], warnOnly: false }]]),
    machines: 'any-proved',
    snp: strictRules(rules),
    ...overrides,
  };
}

function judge(given: Given = {}) {
  const { maker = amd.Milan, trust = maker, certificates = (chip) => [chip] } = given;
  const kind = given.report?.kind ?? 'vcek';
  const report = maker.report({ key, kind, ...given.report });
  const chip = maker.chip({ key, kind, ...given.chip }).der;
  const validator = new SnpValidator({ trust: trust.trust, cache: new CertificateCache() });
  return validator.validate(
    encodeSnpEvidence({ report, certificates: certificates(chip) }),
    given.binding ?? BINDING,
    {
      nowMs: TEST_NOW_MS,
      policy: policyWith(given.rules, given.policy),
      collateral: { snp: { certificates: [], crls: [], ...given.collateral } },
    },
  );
}

const edit = (offset: number, ...bytes: number[]) => ({
  report: { edit: (report: Buffer): void => void report.set(bytes, offset) },
});
const withoutExtension = (arc: string): Given => ({
  chip: { editExtensions: (all) => all.filter(({ oid }) => oid !== `1.3.6.1.4.1.3704.1.${arc}`) },
});

describe('a report', () => {
  test.each(['Milan', 'Genoa', 'Turin'] as const)(
    'of %s under its policy is accepted, with its chip and its TCB',
    async (product) => {
      const verdict = await judge({ maker: amd[product] });
      expect(verdict.accepted).toBe(true);
      expect(verdict.policyVersion).toBe('test@1');
      expect(verdict.machineIdentity).toEqual({
        kind: 'snp-chip',
        id: Buffer.from(amd[product].hardwareId).toString('hex'),
        proof: 'endorsed',
      });
      expect(verdict.tcb).toEqual(amd[product].tcb);
      expect(verdict.measurements.get('launch')).toEqual(LAUNCH);
      expect(verdict.claims['product']).toBe(product);
    },
  );

  test.each([2, 3, 4, 5])('of version %i is accepted', async (version) => {
    await expect(judge({ report: { version } })).resolves.toMatchObject({ accepted: true });
  });

  test('of an allowed provider is accepted under its VLEK, and the identity is the provider', async () => {
    const given = {
      report: { kind: 'vlek', chipId: new Uint8Array(64) },
      rules: { cspIds: ['CN=cc-test.example'] },
    } as const;
    const verdict = await judge(given);
    expect(verdict.machineIdentity).toEqual({ kind: 'snp-csp', id: 'CN=cc-test.example', proof: 'endorsed' });
  });

  test('of a chip with several certificates is judged by the one for its TCB', async () => {
    const other = amd.Milan.chip({ key, tcb: { ...amd.Milan.tcb, snp: 3 } }).der;
    await expect(judge({ certificates: (chip) => [other, chip] })).resolves.toMatchObject({ accepted: true });
  });

  test('is accepted with a current CRL of its root that names others', async () => {
    const crl = issueCrl({ issuer: amd.Milan.ark, revoked: [1n] });
    const verdict = await judge({ collateral: { crls: [crl] }, rules: { revocation: 'required' } });
    expect(verdict.checks).toContainEqual(expect.objectContaining({ name: 'revocation', outcome: 'pass' }));
  });
});

const cases: readonly { readonly name: string; readonly given: () => Given; readonly want: string }[] = [
  { name: 'one version too old', given: () => ({ report: { version: 1 } }), want: 'snp-report-version' },
  { name: 'of version 0', given: () => ({ report: { version: 0 } }), want: 'snp-report-version' },
  { name: 'of a version to come', given: () => ({ report: { version: 6 } }), want: 'snp-report-version' },
  { name: 'with another signature algorithm', given: () => edit(0x34, 2), want: 'snp-signature-algorithm' },
  { name: 'with a reserved word set', given: () => edit(0x4c, 1), want: 'snp-reserved-not-zero' },
  {
    name: 'with a reserved byte beside the firmware version',
    given: () => edit(0x1eb, 1),
    want: 'snp-reserved-not-zero',
  },
  {
    name: 'of version 2 with a CPUID',
    given: () => ({ report: { version: 2, edit: (report) => void report.set([0x19], 0x188) } }),
    want: 'snp-reserved-not-zero',
  },
  {
    name: 'of version 4 with mitigation vectors',
    given: () => ({ report: { version: 4, edit: (report) => void report.set([1], 0x1f8) } }),
    want: 'snp-reserved-not-zero',
  },
  { name: 'with a reserved flag', given: () => edit(0x48, 0x20), want: 'snp-signing-key' },
  { name: 'signed by a reserved key', given: () => edit(0x48, 2 << 2), want: 'snp-signing-key' },
  { name: 'signed by no key', given: () => edit(0x48, 7 << 2), want: 'snp-signing-key' },
  {
    name: 'whose guest policy lacks the bit that must be one',
    given: () => edit(0x0a, 0x01),
    want: 'snp-guest-policy-malformed',
  },
  {
    name: 'whose guest policy has a reserved bit',
    given: () => edit(0x0b, 0x04),
    want: 'snp-guest-policy-malformed',
  },
  { name: 'that allows debugging', given: () => edit(0x0a, 0x0a), want: 'snp-debug' },
  { name: 'that allows migration', given: () => edit(0x0a, 0x06), want: 'snp-migration' },
  {
    name: 'that allows SMT against the policy',
    given: () => ({ rules: { allowSmt: false } }),
    want: 'snp-smt',
  },
  { name: 'asked for below VMPL 0', given: () => edit(0x30, 1), want: 'snp-vmpl' },
  { name: 'with other report data', given: () => edit(0x50, 0), want: 'snp-binding' },
  { name: 'for another session', given: () => ({ binding: new Uint8Array(64) }), want: 'snp-binding' },
  { name: 'of an unknown measurement', given: () => edit(0x90, 0), want: 'attestation-register-mismatch' },
  {
    name: 'of a machine that is not listed',
    given: () => ({ policy: { machines: new Set(['snp-chip:00']) } }),
    want: 'attestation-machine-unknown',
  },
  {
    name: 'whose certificate is for an older TCB',
    given: () => ({ chip: { tcb: { ...amd.Milan.tcb, snp: 19 } } }),
    want: 'snp-tcb-mismatch',
  },
  {
    name: 'whose certificate is for a newer TCB',
    given: () => ({ chip: { tcb: { ...amd.Milan.tcb, microcode: 201 } } }),
    want: 'snp-tcb-mismatch',
  },
  {
    name: 'whose reported TCB is below the minimum',
    given: () => ({ rules: { minimumTcb: new Map([['Milan', { ...amd.Milan.tcb, snp: 21 }]]) } }),
    want: 'snp-tcb-reported',
  },
  {
    name: 'whose committed TCB is below the minimum',
    given: () => edit(0x1e0, 0),
    want: 'snp-tcb-committed',
  },
  { name: 'whose launch TCB is below the minimum', given: () => edit(0x1f0, 0), want: 'snp-tcb-launch' },
  { name: 'whose current TCB is below the reported one', given: () => edit(0x38, 1), want: 'snp-tcb-order' },
  {
    name: 'on firmware that is not committed',
    given: () => edit(0x1e8, 9),
    want: 'snp-firmware-provisional',
  },
  {
    name: 'of a product that the policy does not name',
    given: () => ({ maker: amd.Genoa, rules: { minimumTcb: new Map([['Milan', amd.Milan.tcb]]) } }),
    want: 'snp-product-not-allowed',
  },
  {
    name: 'of an unknown processor',
    given: () => ({ report: { cpuid: { family: 0x1b, model: 0 } } }),
    want: 'snp-product-unknown',
  },
  {
    name: 'of an unknown product name',
    given: () => ({ report: { version: 2 }, chip: { productName: 'Rome-B0' } }),
    want: 'snp-product-unknown',
  },
  {
    name: 'of another chip',
    given: () => ({ chip: { hardwareId: new Uint8Array(64).fill(9) } }),
    want: 'snp-chip-mismatch',
  },
  {
    name: 'of a masked chip',
    given: () => ({ report: { chipId: new Uint8Array(64) } }),
    want: 'snp-chip-masked',
  },
  { name: 'of a masked chip key', given: () => edit(0x48, 2), want: 'snp-chip-masked' },
  {
    name: 'of Turin whose chip id goes on after 8 bytes',
    given: () => ({ maker: amd.Turin, report: { edit: (report) => void report.set([1], 0x1a8) } }),
    want: 'snp-chip-mismatch',
  },
  {
    name: 'of a VLEK with the certificate of a VCEK',
    given: () => ({ report: { kind: 'vlek' }, chip: { kind: 'vcek' } }),
    want: 'snp-certificate-kind',
  },
  {
    name: 'of a VCEK with the certificate of a VLEK',
    given: () => ({ report: { kind: 'vcek' }, chip: { kind: 'vlek' } }),
    want: 'snp-certificate-kind',
  },
  {
    name: 'of a VLEK under the authority of VCEKs',
    given: () => ({ report: { kind: 'vlek' }, chip: { issuer: amd.Milan.ask } }),
    want: 'snp-certificate-issuer',
  },
  {
    name: 'of a provider that is not allowed',
    given: () => ({ report: { kind: 'vlek' }, rules: { cspIds: ['CN=other'] } }),
    want: 'snp-csp',
  },
  {
    name: 'of any provider when none is named',
    given: () => ({ report: { kind: 'vlek' } }),
    want: 'snp-csp',
  },
  {
    name: 'of Milan under the chain of Genoa',
    given: () => ({ maker: amd.Genoa, report: { cpuid: { family: 0x19, model: 1 } } }),
    want: 'snp-product-mismatch',
  },
  {
    name: 'of a chip that a self-made CA with the names of AMD certified',
    given: () => ({ maker: new TestAmd('Milan'), trust: amd.Milan }),
    want: 'x509-signature',
  },
  {
    name: 'under a root that is pinned for another product',
    given: () => ({ trust: renamed(amd.Milan, 'Genoa') }),
    want: 'x509-root-untrusted',
  },
  {
    name: 'without any certificate',
    given: () => ({ certificates: () => [] }),
    want: 'snp-certificate-missing',
  },
  {
    name: 'without its authority',
    given: () => ({ trust: withoutAuthorities(amd.Milan) }),
    want: 'snp-certificate-missing',
  },
  {
    name: 'with a malformed certificate',
    given: () => ({ certificates: () => [Uint8Array.of(0x30, 0)] }),
    want: 'x509-malformed',
  },
  {
    name: 'with an expired certificate',
    given: () => ({ chip: { certificate: { notAfterMs: TEST_NOW_MS - 1000 } } }),
    want: 'x509-expired',
  },
  {
    name: 'with a certificate from the future',
    given: () => ({ chip: { certificate: { notBeforeMs: TEST_NOW_MS + DAY_MS } } }),
    want: 'x509-not-yet-valid',
  },
  {
    name: 'with a key on P-256',
    given: () => ({ chip: { key: generateKey('p256') } }),
    want: 'snp-certificate-key',
  },
  {
    name: 'signed by another key than its certificate’s',
    given: () => ({ chip: { key: generateKey('p384') } }),
    want: 'snp-signature',
  },
  {
    name: 'whose certificate lacks a TCB level',
    given: () => withoutExtension('3.3'),
    want: 'snp-certificate-extension',
  },
  {
    name: 'whose certificate lacks the hardware id',
    given: () => withoutExtension('4'),
    want: 'snp-certificate-extension',
  },
  {
    name: 'whose certificate lacks the product',
    given: () => withoutExtension('2'),
    want: 'snp-certificate-extension',
  },
  {
    name: 'whose certificate has a TCB level twice',
    given: () => ({ chip: { editExtensions: (all) => [...all, all[2]!] } }),
    want: 'x509-extension-duplicate',
  },
  {
    name: 'whose VCEK names a provider',
    given: () => ({
      chip: {
        editExtensions: (all) => [
          ...all,
          { oid: '1.3.6.1.4.1.3704.1.5', value: Buffer.from('1601 41'.replace(' ', ''), 'hex') },
        ],
      },
    }),
    want: 'snp-certificate-extension',
  },
  {
    name: 'whose hardware id is short',
    given: () => ({ chip: { hardwareId: new Uint8Array(63).fill(0xc1) } }),
    want: 'snp-certificate-extension',
  },
  {
    name: 'of Turin read with the layout of Milan',
    given: () => ({
      maker: amd.Turin,
      report: { edit: (report) => void report.set(amd.Milan.encodeTcb(amd.Turin.tcb), 0x180) },
    }),
    want: 'snp-tcb-mismatch',
  },
  {
    name: 'of Turin without FMC in its certificate',
    given: () => ({ maker: amd.Turin, ...withoutExtension('3.9') }),
    want: 'snp-certificate-extension',
  },
  {
    name: 'without the author key that is required',
    given: () => ({ rules: { authorKeys: ['00'.repeat(48)] } }),
    want: 'snp-author-key',
  },
  {
    name: 'of another author key',
    given: () => ({ ...edit(0x48, 1), rules: { authorKeys: ['11'.repeat(48)] } }),
    want: 'snp-author-key',
  },
  { name: 'of another id key', given: () => ({ rules: { idKeys: ['11'.repeat(48)] } }), want: 'snp-id-key' },
  {
    name: 'with other host data',
    given: () => ({ rules: { hostData: ['11'.repeat(32)] } }),
    want: 'snp-host-data',
  },
  {
    name: 'under a revoked authority',
    given: () => ({
      collateral: { crls: [issueCrl({ issuer: amd.Milan.ark, revoked: [amd.Milan.ask.serial] })] },
    }),
    want: 'x509-revoked',
  },
  {
    name: 'with a CRL of another CA',
    given: () => ({
      collateral: { crls: [issueCrl({ issuer: { ...amd.Milan.ark, key: generateKey('rsa') } })] },
    }),
    want: 'x509-signature',
  },
  {
    name: 'with a CRL past its next update',
    given: () => ({
      collateral: { crls: [issueCrl({ issuer: amd.Milan.ark, nextUpdateMs: TEST_NOW_MS - 1000 })] },
    }),
    want: 'x509-crl-expired',
  },
  {
    name: 'with a CRL from the future',
    given: () => ({
      collateral: { crls: [issueCrl({ issuer: amd.Milan.ark, thisUpdateMs: TEST_NOW_MS + DAY_MS })] },
    }),
    want: 'x509-crl-not-yet-valid',
  },
  {
    name: 'with an older CRL than the policy allows',
    given: () => ({
      collateral: { crls: [issueCrl({ issuer: amd.Milan.ark, thisUpdateMs: TEST_NOW_MS - 31 * DAY_MS })] },
    }),
    want: 'snp-collateral-age',
  },
  {
    name: 'without the CRL that is required',
    given: () => ({ rules: { revocation: 'required' } }),
    want: 'snp-revocation',
  },
];

describe('a report is refused', () => {
  test.each(cases)('$name', async ({ given, want }) => {
    const refusal = await judge(given()).catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(AttestationError);
    expect(refusal).toMatchObject({ code: want });
  });

  test('under a whole self-made chain with AMD’s names, because its root is not pinned', async () => {
    const selfMade = new TestAmd('Milan');
    const certificates = (chip: Uint8Array): Uint8Array[] => [chip, selfMade.ask.der, selfMade.ark.der];
    await expect(judge({ maker: selfMade, trust: amd.Milan, certificates })).rejects.toMatchObject({
      code: 'x509-root-untrusted',
    });
  });

  test('when the policy or the collateral has no section for it', async () => {
    const validator = new SnpValidator({ trust: amd.Milan.trust, cache: new CertificateCache() });
    const context = {
      nowMs: TEST_NOW_MS,
      policy: { version: '1', registers: new Map(), machines: 'any' as const },
      collateral: {},
    };
    await expect(validator.validate(new Uint8Array(), BINDING, context)).rejects.toMatchObject({
      code: 'attestation-policy-missing',
    });
  });

  test('by size, one byte more or less', () => {
    const report = amd.Milan.report({ key });
    for (const given of [report.subarray(1), Buffer.concat([report, Buffer.of(0)]), new Uint8Array()]) {
      expect(() => parseReport(given)).toThrow(expect.objectContaining({ code: 'snp-report-size' }));
    }
  });

  const N = Buffer.from(
    'ffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973',
    'hex',
  ).reverse();
  test.each([
    ['r of zero', 0x2a0, new Uint8Array(48)],
    ['s of zero', 0x2e8, new Uint8Array(48)],
    ['r of the group order', 0x2a0, N],
    ['s of the group order', 0x2e8, N],
    ['r with a byte in its padding', 0x2a0 + 48, Uint8Array.of(1)],
    ['s with a byte in its padding', 0x2e8 + 71, Uint8Array.of(1)],
  ])('for %s', (_, offset, bytes) => {
    const report = amd.Milan.report({ key });
    report.set(bytes, offset);
    expect(() => parseReport(report)).toThrow(expect.objectContaining({ code: 'snp-signature-range' }));
  });

  test('for a byte after the signature', () => {
    const report = amd.Milan.report({ key });
    report[0x4a0 - 1] = 1;
    expect(() => parseReport(report)).toThrow(expect.objectContaining({ code: 'snp-reserved-not-zero' }));
  });
});

describe('real reports', () => {
  const nowMs = Date.UTC(2026, 5, 1);
  const judgeReal = (report: Uint8Array, vcek: Uint8Array, policy: Policy | 'not-judged' = 'not-judged') =>
    verifySnpEvidence(encodeSnpEvidence({ report, certificates: [vcek] }), {
      trust: amdTrust(),
      cache,
      collateral: { certificates: [], crls: [] },
      nowMs,
      policy,
      binding: 'not-judged',
    });
  const cache = new CertificateCache();
  const sets = [
    { name: 'milan', debug: false },
    { name: 'milan-debug', debug: true },
  ];

  test.each(sets)('of $name are genuine', ({ name, debug }) => {
    const verdict = judgeReal(readFixture('snp', `${name}.report`), readFixture('snp', `${name}.vcek`));
    expect(verdict.claims).toMatchObject({ product: 'Milan', debug });
    expect(verdict.policyVersion).toBe('not-judged');
    expect(verdict.warnings.some((warning) => warning.startsWith('debug'))).toBe(debug);
    expect(verdict.checks).toContainEqual(expect.objectContaining({ name: 'binding', outcome: 'skipped' }));
  });

  test('with debugging are refused where the policy does not allow it', () => {
    const [report, vcek] = [readFixture('snp', 'milan-debug.report'), readFixture('snp', 'milan-debug.vcek')];
    expect(() => judgeReal(report, vcek, policyWith())).toThrow(
      expect.objectContaining({ code: 'snp-debug' }),
    );
  });

  test('with the certificate of another chip are refused', () => {
    const report = readFixture('snp', 'milan.report');
    expect(() => judgeReal(report, readFixture('snp', 'milan-debug.vcek'))).toThrow(
      expect.objectContaining({ code: 'snp-chip-mismatch' }),
    );
    expect(() => judgeReal(report, readFixture('snp', 'turin.vcek'))).toThrow(
      expect.objectContaining({ code: 'snp-chip-mismatch' }),
    );
  });

  test('are refused with any byte changed, in the report and in the certificate', () => {
    let cases = 0;
    for (const { name } of sets) {
      const files = [readFixture('snp', `${name}.report`), readFixture('snp', `${name}.vcek`)] as const;
      for (const [index, original] of files.entries()) {
        for (let at = 0; at < original.length; at++, cases++) {
          const changed = Uint8Array.from(original);
          changed[at] = (changed[at] ?? 0) ^ (1 << (at % 8));
          const [report, vcek] = index === 0 ? [changed, files[1]] : [files[0], changed];
          if (isAccepted(() => judgeReal(report, vcek)))
            throw new Error(`accepted: ${name}, file ${index}, byte ${at}`);
        }
      }
    }
    expect(cases).toBe(2 * 1184 + 2 * 1360);
  });

  test('have a second valid signature, so that evidence must not be identified by its bytes', () => {
    const report = amd.Milan.report({ key });
    const order = BigInt(
      '0xffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973',
    );
    const s = BigInt(
      `0x${Buffer.from(report.subarray(0x2e8, 0x2e8 + 48))
        .reverse()
        .toString('hex')}`,
    );
    const twin = Uint8Array.from(report);
    twin.set(Buffer.from((order - s).toString(16).padStart(96, '0'), 'hex').reverse(), 0x2e8);
    const options = {
      trust: amd.Milan.trust,
      cache,
      collateral: { certificates: [amd.Milan.chip({ key }).der], crls: [] },
      nowMs,
      binding: 'not-judged',
      policy: 'not-judged',
    } as const;
    expect(verifySnpEvidence(twin, options).claims).toEqual(verifySnpEvidence(report, options).claims);
  });
});

describe('documents', () => {
  test('are decoded as they were encoded', () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.array(fc.uint8Array(), { maxLength: 7 }), (report, certificates) => {
        expect(decodeSnpEvidence(encodeSnpEvidence({ report, certificates }))).toEqual({
          report,
          certificates,
        });
      }),
    );
  });

  test('are read or refused by code, whatever the bytes are', () => {
    const chip = amd.Milan.chip({ key }).der;
    const seeds = [
      encodeSnpEvidence({ report: amd.Milan.report({ key }), certificates: [chip] }),
      amd.Milan.report({ key }),
    ];
    const options = {
      trust: amd.Milan.trust,
      cache: new CertificateCache(),
      collateral: { certificates: [chip], crls: [] },
      nowMs: TEST_NOW_MS,
      binding: 'not-judged',
      policy: 'not-judged',
    } as const;
    const result = fuzz({
      seeds,
      parse: (input) => verifySnpEvidence(input, options),
      codes: ['snp-', 'x509-'],
    });
    expect(result.refused).toBeGreaterThan(0);
  });

  test('of the host’s certificate table are taken apart, and refused where it lies', () => {
    const [one, two] = [Uint8Array.of(1, 2, 3), Uint8Array.of(4)];
    const table = certificateTable([one, two]);
    expect(certificatesFromTable(table)).toEqual([one, two]);
    for (const given of [
      new Uint8Array(),
      table.subarray(0, 24),
      table.subarray(0, table.length - 1),
      new Uint8Array(4096).fill(1),
    ]) {
      expect(() => certificatesFromTable(given)).toThrow(
        expect.objectContaining({ code: 'snp-document-malformed' }),
      );
    }
    expect(fuzz({ seeds: [table], parse: certificatesFromTable, codes: ['snp-'] }).cases).toBeGreaterThan(0);
  });
});

function isAccepted(work: () => unknown): boolean {
  try {
    work();
    return true;
  } catch (error) {
    if (error instanceof AttestationError) return false;
    throw error;
  }
}

function renamed(maker: TestAmd, product: 'Genoa'): TestAmd {
  const trust = {
    ...maker.trust,
    roots: new Map([...maker.trust.roots.keys()].map((root) => [root, product])),
  };
  return Object.create(maker, { trust: { value: trust } }) as TestAmd;
}

function withoutAuthorities(maker: TestAmd): TestAmd {
  return Object.create(maker, { trust: { value: { ...maker.trust, authorities: [] } } }) as TestAmd;
}

/** As the host lays it out: entries of guid, offset and length, a zero entry, the certificates. */
function certificateTable(certificates: readonly Uint8Array[]): Uint8Array {
  const header = Buffer.alloc((certificates.length + 1) * 24);
  let offset = header.length;
  for (const [index, certificate] of certificates.entries()) {
    header.fill(0xaa, index * 24, index * 24 + 16);
    header.writeUInt32LE(offset, index * 24 + 16);
    header.writeUInt32LE(certificate.length, index * 24 + 20);
    offset += certificate.length;
  }
  return new Uint8Array(Buffer.concat([header, ...certificates]));
}
