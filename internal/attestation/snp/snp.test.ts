import { beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  failedChecks,
  passedChecks,
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
  readonly trust?: Pick<TestAmd, 'trust'>;
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

describe('SnpValidator accepts', () => {
  test.each(['Milan', 'Genoa', 'Turin'] as const)(
    'a report of %s that matches its policy, and returns its chip and TCB',
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

  test.each([2, 3, 4, 5])('a report of version %i', async (version) => {
    await expect(judge({ report: { version } })).resolves.toMatchObject({ accepted: true });
  });

  test('a report with a VLEK of an allowed provider, and returns the provider as identity', async () => {
    const given = {
      report: { kind: 'vlek', chipId: new Uint8Array(64) },
      rules: { cspIds: ['CN=cc-test.example'] },
    } as const;
    const verdict = await judge(given);
    expect(verdict.machineIdentity).toEqual({ kind: 'snp-csp', id: 'CN=cc-test.example', proof: 'endorsed' });
  });

  test('a report of a chip with several certificates, and uses the certificate for the TCB of the report', async () => {
    const other = amd.Milan.chip({ key, tcb: { ...amd.Milan.tcb, snp: 3 } }).der;
    await expect(judge({ certificates: (chip) => [other, chip] })).resolves.toMatchObject({ accepted: true });
  });

  test('a report with a current CRL that does not list its certificates', async () => {
    const crl = issueCrl({ issuer: amd.Milan.ark, revoked: [1n] });
    const verdict = await judge({ collateral: { crls: [crl] }, rules: { revocation: 'required' } });
    expect(verdict.checks).toContainEqual(expect.objectContaining({ name: 'revocation', outcome: 'pass' }));
  });
});

const cases: readonly { readonly name: string; readonly given: () => Given; readonly want: string }[] = [
  {
    name: 'a report of version 1, which is too old',
    given: () => ({ report: { version: 1 } }),
    want: 'snp-report-version',
  },
  { name: 'a report of version 0', given: () => ({ report: { version: 0 } }), want: 'snp-report-version' },
  {
    name: 'a report of a future version',
    given: () => ({ report: { version: 6 } }),
    want: 'snp-report-version',
  },
  {
    name: 'a report with another signature algorithm',
    given: () => edit(0x34, 2),
    want: 'snp-signature-algorithm',
  },
  { name: 'a report with a reserved word set', given: () => edit(0x4c, 1), want: 'snp-reserved-not-zero' },
  {
    name: 'a report with a reserved byte set after the firmware version',
    given: () => edit(0x1eb, 1),
    want: 'snp-reserved-not-zero',
  },
  {
    name: 'a report of version 2 with a CPUID',
    given: () => ({ report: { version: 2, edit: (report) => void report.set([0x19], 0x188) } }),
    want: 'snp-reserved-not-zero',
  },
  {
    name: 'a report of version 4 with mitigation vectors',
    given: () => ({ report: { version: 4, edit: (report) => void report.set([1], 0x1f8) } }),
    want: 'snp-reserved-not-zero',
  },
  { name: 'a report with a reserved flag set', given: () => edit(0x48, 0x20), want: 'snp-signing-key' },
  {
    name: 'a report that names a reserved signing key',
    given: () => edit(0x48, 2 << 2),
    want: 'snp-signing-key',
  },
  { name: 'a report that names no signing key', given: () => edit(0x48, 7 << 2), want: 'snp-signing-key' },
  {
    name: 'a report whose guest policy lacks the bit that must be 1',
    given: () => edit(0x0a, 0x01),
    want: 'snp-guest-policy-malformed',
  },
  {
    name: 'a report whose guest policy sets a reserved bit',
    given: () => edit(0x0b, 0x04),
    want: 'snp-guest-policy-malformed',
  },
  { name: 'a report of a machine that can be debugged', given: () => edit(0x0a, 0x0a), want: 'snp-debug' },
  {
    name: 'a report of a machine that can be migrated',
    given: () => edit(0x0a, 0x06),
    want: 'snp-migration',
  },
  {
    name: 'a report of a machine with SMT while the policy forbids SMT',
    given: () => ({ rules: { allowSmt: false } }),
    want: 'snp-smt',
  },
  { name: 'a report requested from VMPL 1', given: () => edit(0x30, 1), want: 'snp-vmpl' },
  { name: 'a report whose report data was changed', given: () => edit(0x50, 0), want: 'snp-binding' },
  {
    name: 'a report for another session',
    given: () => ({ binding: new Uint8Array(64) }),
    want: 'snp-binding',
  },
  {
    name: 'a report with an unknown launch measurement',
    given: () => edit(0x90, 0),
    want: 'attestation-register-mismatch',
  },
  {
    name: 'a report of a machine that is not listed',
    given: () => ({ policy: { machines: new Set(['snp-chip:00']) } }),
    want: 'attestation-machine-unknown',
  },
  {
    name: 'a report whose certificate is for an older TCB',
    given: () => ({ chip: { tcb: { ...amd.Milan.tcb, snp: 19 } } }),
    want: 'snp-tcb-mismatch',
  },
  {
    name: 'a report whose certificate is for a newer TCB',
    given: () => ({ chip: { tcb: { ...amd.Milan.tcb, microcode: 201 } } }),
    want: 'snp-tcb-mismatch',
  },
  {
    name: 'a report whose reported TCB is below the minimum',
    given: () => ({ rules: { minimumTcb: new Map([['Milan', { ...amd.Milan.tcb, snp: 21 }]]) } }),
    want: 'snp-tcb-reported',
  },
  {
    name: 'a report whose committed TCB is below the minimum',
    given: () => edit(0x1e0, 0),
    want: 'snp-tcb-committed',
  },
  {
    name: 'a report whose launch TCB is below the minimum',
    given: () => edit(0x1f0, 0),
    want: 'snp-tcb-launch',
  },
  {
    name: 'a report whose current TCB is below the reported one',
    given: () => edit(0x38, 1),
    want: 'snp-tcb-order',
  },
  {
    name: 'a report of a machine whose firmware is not committed',
    given: () => edit(0x1e8, 9),
    want: 'snp-firmware-provisional',
  },
  {
    name: 'a report of a product that the policy does not list',
    given: () => ({ maker: amd.Genoa, rules: { minimumTcb: new Map([['Milan', amd.Milan.tcb]]) } }),
    want: 'snp-product-not-allowed',
  },
  {
    name: 'a report of an unknown processor',
    given: () => ({ report: { cpuid: { family: 0x1b, model: 0 } } }),
    want: 'snp-product-unknown',
  },
  {
    name: 'a report whose certificate has an unknown product name',
    given: () => ({ report: { version: 2 }, chip: { productName: 'Rome-B0' } }),
    want: 'snp-product-unknown',
  },
  {
    name: 'a report whose certificate is for another chip',
    given: () => ({ chip: { hardwareId: new Uint8Array(64).fill(9) } }),
    want: 'snp-chip-mismatch',
  },
  {
    name: 'a report whose chip id is masked (all zeros)',
    given: () => ({ report: { chipId: new Uint8Array(64) } }),
    want: 'snp-chip-masked',
  },
  {
    name: 'a report with the flag for a masked chip key',
    given: () => edit(0x48, 2),
    want: 'snp-chip-masked',
  },
  {
    name: 'a report of a Turin chip with a chip id longer than 8 bytes',
    given: () => ({ maker: amd.Turin, report: { edit: (report) => void report.set([1], 0x1a8) } }),
    want: 'snp-chip-mismatch',
  },
  {
    name: 'a report signed with a VLEK but sent with a VCEK certificate',
    given: () => ({ report: { kind: 'vlek' }, chip: { kind: 'vcek' } }),
    want: 'snp-certificate-kind',
  },
  {
    name: 'a report signed with a VCEK but sent with a VLEK certificate',
    given: () => ({ report: { kind: 'vcek' }, chip: { kind: 'vlek' } }),
    want: 'snp-certificate-kind',
  },
  {
    name: 'a report whose VLEK was issued by the CA of VCEKs',
    given: () => ({ report: { kind: 'vlek' }, chip: { issuer: amd.Milan.ask } }),
    want: 'snp-certificate-issuer',
  },
  {
    name: 'a report of a cloud provider that is not allowed',
    given: () => ({ report: { kind: 'vlek' }, rules: { cspIds: ['CN=other'] } }),
    want: 'snp-csp',
  },
  {
    name: 'a report of a cloud provider while the policy allows none',
    given: () => ({ report: { kind: 'vlek' } }),
    want: 'snp-csp',
  },
  {
    name: 'a report of a Milan chip with a certificate chain of Genoa',
    given: () => ({ maker: amd.Genoa, report: { cpuid: { family: 0x19, model: 1 } } }),
    want: 'snp-product-mismatch',
  },
  {
    name: 'a report of a chip certified by a self-made CA with AMD’s names',
    given: () => ({ maker: new TestAmd('Milan'), trust: amd.Milan }),
    want: 'x509-signature',
  },
  {
    name: 'a report under a root that is pinned for another product',
    given: () => ({ trust: renamed(amd.Milan, 'Genoa') }),
    want: 'x509-root-untrusted',
  },
  {
    name: 'a report without any certificate',
    given: () => ({ certificates: () => [] }),
    want: 'snp-certificate-missing',
  },
  {
    name: 'a report without the CA that issued its certificate',
    given: () => ({ trust: withoutAuthorities(amd.Milan) }),
    want: 'snp-certificate-missing',
  },
  {
    name: 'a report with a malformed certificate',
    given: () => ({ certificates: () => [Uint8Array.of(0x30, 0)] }),
    want: 'x509-malformed',
  },
  {
    name: 'a report with an expired certificate',
    given: () => ({ chip: { certificate: { notAfterMs: TEST_NOW_MS - 1000 } } }),
    want: 'x509-expired',
  },
  {
    name: 'a report with a certificate that is not valid yet',
    given: () => ({ chip: { certificate: { notBeforeMs: TEST_NOW_MS + DAY_MS } } }),
    want: 'x509-not-yet-valid',
  },
  {
    name: 'a report with a P-256 key in its certificate',
    given: () => ({ chip: { key: generateKey('p256') } }),
    want: 'snp-certificate-key',
  },
  {
    name: 'a report signed with another key than the certified one',
    given: () => ({ chip: { key: generateKey('p384') } }),
    want: 'snp-signature',
  },
  {
    name: 'a report whose certificate lacks a TCB level',
    given: () => withoutExtension('3.3'),
    want: 'snp-certificate-extension',
  },
  {
    name: 'a report whose certificate lacks the hardware id',
    given: () => withoutExtension('4'),
    want: 'snp-certificate-extension',
  },
  {
    name: 'a report whose certificate lacks the product',
    given: () => withoutExtension('2'),
    want: 'snp-certificate-extension',
  },
  {
    name: 'a report whose certificate has a duplicate TCB level',
    given: () => ({ chip: { editExtensions: (all) => [...all, all[2]!] } }),
    want: 'x509-extension-duplicate',
  },
  {
    name: 'a report whose VCEK certificate names a cloud provider',
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
    name: 'a report whose certificate has a truncated hardware id',
    given: () => ({ chip: { hardwareId: new Uint8Array(63).fill(0xc1) } }),
    want: 'snp-certificate-extension',
  },
  {
    name: 'a report of Turin with its TCB in the layout of Milan',
    given: () => ({
      maker: amd.Turin,
      report: { edit: (report) => void report.set(amd.Milan.encodeTcb(amd.Turin.tcb), 0x180) },
    }),
    want: 'snp-tcb-mismatch',
  },
  {
    name: 'a report of Turin whose certificate lacks the FMC level',
    given: () => ({ maker: amd.Turin, ...withoutExtension('3.9') }),
    want: 'snp-certificate-extension',
  },
  {
    name: 'a report without the author key that the policy requires',
    given: () => ({ rules: { authorKeys: ['00'.repeat(48)] } }),
    want: 'snp-author-key',
  },
  {
    name: 'a report with an author key that the policy does not list',
    given: () => ({ ...edit(0x48, 1), rules: { authorKeys: ['11'.repeat(48)] } }),
    want: 'snp-author-key',
  },
  {
    name: 'a report with an id key that the policy does not list',
    given: () => ({ rules: { idKeys: ['11'.repeat(48)] } }),
    want: 'snp-id-key',
  },
  {
    name: 'a report with host data that the policy does not list',
    given: () => ({ rules: { hostData: ['11'.repeat(32)] } }),
    want: 'snp-host-data',
  },
  {
    name: 'a report under a CA that the CRL revokes',
    given: () => ({
      collateral: { crls: [issueCrl({ issuer: amd.Milan.ark, revoked: [amd.Milan.ask.serial] })] },
    }),
    want: 'x509-revoked',
  },
  {
    name: 'a report with a CRL of another CA',
    given: () => ({
      collateral: { crls: [issueCrl({ issuer: { ...amd.Milan.ark, key: generateKey('rsa') } })] },
    }),
    want: 'x509-signature',
  },
  {
    name: 'a report with a CRL past its next update',
    given: () => ({
      collateral: { crls: [issueCrl({ issuer: amd.Milan.ark, nextUpdateMs: TEST_NOW_MS - 1000 })] },
    }),
    want: 'x509-crl-expired',
  },
  {
    name: 'a report with a CRL that is not valid yet',
    given: () => ({
      collateral: { crls: [issueCrl({ issuer: amd.Milan.ark, thisUpdateMs: TEST_NOW_MS + DAY_MS })] },
    }),
    want: 'x509-crl-not-yet-valid',
  },
  {
    name: 'a report with a CRL older than the policy allows',
    given: () => ({
      collateral: { crls: [issueCrl({ issuer: amd.Milan.ark, thisUpdateMs: TEST_NOW_MS - 31 * DAY_MS })] },
    }),
    want: 'snp-collateral-age',
  },
  {
    name: 'a report without the CRL that the policy requires',
    given: () => ({ rules: { revocation: 'required' } }),
    want: 'snp-revocation',
  },
];

describe('SNP verification refuses', () => {
  test.each(cases)('$name', async ({ given, want }) => {
    const refusal = await judge(given()).catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(AttestationError);
    expect(refusal).toMatchObject({ code: want });
  });

  test('evidence with the name of the failed check that the check has when it passes', async () => {
    const crl = issueCrl({ issuer: amd.Milan.ark });
    const vlek: Given = {
      report: { kind: 'vlek', chipId: new Uint8Array(64) },
      rules: { cspIds: ['CN=cc-test.example'] },
    };
    const other = amd.Milan.chip({ key, tcb: { ...amd.Milan.tcb, snp: 3 } }).der;
    const accepted: readonly Given[] = [
      { collateral: { crls: [crl] }, certificates: (chip) => [other, chip] },
      vlek,
    ];
    const passed = await passedChecks(accepted.map((given) => judge(given)));
    const failed = await failedChecks(cases.map(({ given }) => judge(given())));
    const lacksIssuer = judge({ trust: { trust: { ...amd.Milan.trust, authorities: [] } } });
    expect(await failedChecks([lacksIssuer, judge({ certificates: () => [] })])).toEqual([
      'certificate-missing/issuer',
      'certificate-missing/chip',
    ]);
    expect(failed.filter((name) => !passed.has(name))).toEqual([]);
  });

  test('a report under a self-made chain with AMD’s names, because the root is not pinned', async () => {
    const selfMade = new TestAmd('Milan');
    const certificates = (chip: Uint8Array): Uint8Array[] => [chip, selfMade.ask.der, selfMade.ark.der];
    await expect(judge({ maker: selfMade, trust: amd.Milan, certificates })).rejects.toMatchObject({
      code: 'x509-root-untrusted',
    });
  });

  test('a report when the policy or the collateral has no section for SNP', async () => {
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

  test('a report that is one byte too short or too long', () => {
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
    ['signature value r = 0', 0x2a0, new Uint8Array(48)],
    ['signature value s = 0', 0x2e8, new Uint8Array(48)],
    ['signature value r = n (the group order)', 0x2a0, N],
    ['signature value s = n (the group order)', 0x2e8, N],
    ['signature value r with a non-zero padding byte', 0x2a0 + 48, Uint8Array.of(1)],
    ['signature value s with a non-zero padding byte', 0x2e8 + 71, Uint8Array.of(1)],
  ])('a report with %s', (_, offset, bytes) => {
    const report = amd.Milan.report({ key });
    report.set(bytes, offset);
    expect(() => parseReport(report)).toThrow(expect.objectContaining({ code: 'snp-signature-range' }));
  });

  test('a report with a non-zero byte after the signature', () => {
    const report = amd.Milan.report({ key });
    report[0x4a0 - 1] = 1;
    expect(() => parseReport(report)).toThrow(expect.objectContaining({ code: 'snp-reserved-not-zero' }));
  });
});

describe('SNP reports recorded from real machines', () => {
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

  test.each(sets)('fixture $name is a genuine report', ({ name, debug }) => {
    const verdict = judgeReal(readFixture('snp', `${name}.report`), readFixture('snp', `${name}.vcek`));
    expect(verdict.claims).toMatchObject({ product: 'Milan', debug });
    expect(verdict.policyVersion).toBe('not-judged');
    expect(verdict.warnings.some((warning) => warning.startsWith('debug'))).toBe(debug);
    expect(verdict.checks).toContainEqual(expect.objectContaining({ name: 'binding', outcome: 'skipped' }));
  });

  test('a report with debugging is refused unless the policy allows debugging', () => {
    const [report, vcek] = [readFixture('snp', 'milan-debug.report'), readFixture('snp', 'milan-debug.vcek')];
    expect(() => judgeReal(report, vcek, policyWith())).toThrow(
      expect.objectContaining({ code: 'snp-debug' }),
    );
  });

  test('a report with the certificate of another chip is refused', () => {
    const report = readFixture('snp', 'milan.report');
    expect(() => judgeReal(report, readFixture('snp', 'milan-debug.vcek'))).toThrow(
      expect.objectContaining({ code: 'snp-chip-mismatch' }),
    );
    expect(() => judgeReal(report, readFixture('snp', 'turin.vcek'))).toThrow(
      expect.objectContaining({ code: 'snp-chip-mismatch' }),
    );
  });

  test('a change of any byte in a report or its certificate is refused', () => {
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

  test('a report has a second valid signature, so its bytes cannot serve as its identity', () => {
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

describe('SNP evidence documents and certificate tables', () => {
  test('decodeSnpEvidence() returns what encodeSnpEvidence() encoded', () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.array(fc.uint8Array(), { maxLength: 7 }), (report, certificates) => {
        expect(decodeSnpEvidence(encodeSnpEvidence({ report, certificates }))).toEqual({
          report,
          certificates,
        });
      }),
    );
  });

  test('arbitrary bytes are either parsed or refused with an error code', () => {
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

  test('certificatesFromTable() extracts the certificates, and refuses a table with wrong offsets or lengths', () => {
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

/** The host's certificate table: entries of guid, offset and length, a zero entry, then the certificates. */
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
