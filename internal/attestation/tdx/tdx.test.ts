import { beforeAll, describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { readFixture, TestIntel, type TestQuoteOptions } from '../../testing/evidence/index.ts';
import { fuzz } from '../../testing/fuzz.ts';
import { der, generateKey, issueCertificate, issueCrl, TEST_NOW_MS } from '../../testing/pki/index.ts';
import { collateralFrom, readCollateralFile } from '../collateral/index.ts';
import { CheckList } from '../check-list.ts';
import { AttestationError } from '../errors.ts';
import type { Policy } from '../rules.ts';
import { CertificateCache } from '../x509/index.ts';
import {
  decodeTdxEvidence,
  encodeTdxEvidence,
  intelTrust,
  verifyTdxEvidence,
  parseQuote,
  prepareCollateral,
  tdxErrors,
  TdxValidator,
  type TdxCollateral,
  type TdxRules,
} from './index.ts';

const BINDING = new Uint8Array(64).fill(0xb1);
const MRTD = 'a0'.repeat(48);
const DAY_MS = 86_400_000;

let intel: TestIntel;

beforeAll(() => {
  intel = new TestIntel();
});

interface Given {
  readonly quote?: TestQuoteOptions;
  readonly raw?: Uint8Array;
  readonly eventLog?: Uint8Array;
  readonly rules?: Partial<TdxRules>;
  readonly policy?: Partial<Policy>;
  readonly collateral?: Partial<TdxCollateral>;
  readonly binding?: Uint8Array;
  readonly nowMs?: number;
}

function strictRules(overrides: Partial<TdxRules> = {}): TdxRules {
  return {
    tcbStatuses: ['UpToDate'],
    minimumEvaluationNumber: 17,
    maxCollateralAgeMs: 30 * DAY_MS,
    allowDebug: false,
    allowMigration: false,
    allowServiceTd: false,
    requireSeptVeDisable: true,
    mrConfigId: 'zero',
    mrOwner: 'zero',
    mrOwnerConfig: 'zero',
    eventLog: 'optional',
    ...overrides,
  };
}

function policyWith(rules: Partial<TdxRules> = {}, overrides: Partial<Policy> = {}): Policy {
  return {
    version: 'test@1',
    profile: 'measured',
    registers: new Map([['mrtd', { accepted: [MRTD], warnOnly: false }]]),
    machines: 'any-proved',
    tdx: strictRules(rules),
    ...overrides,
  };
}

function judge(given: Given = {}) {
  const quote = given.raw ?? intel.quote(given.quote);
  const validator = new TdxValidator({ trust: intel.trust, cache: new CertificateCache() });
  return validator.validate(
    encodeTdxEvidence({ quote, eventLog: given.eventLog }),
    given.binding ?? BINDING,
    {
      nowMs: given.nowMs ?? TEST_NOW_MS,
      policy: policyWith(given.rules, given.policy),
      collateral: { tdx: { ...intel.collateral(), ...given.collateral } },
    },
  );
}

const body = (offset: number, ...bytes: number[]): Given => ({
  quote: { editBody: (each) => void each.set(bytes, offset) },
});
const header = (offset: number, ...bytes: number[]): Given => ({
  quote: { editHeader: (each) => void each.set(bytes, offset) },
});
const qeReport = (offset: number, ...bytes: number[]): Given => ({
  quote: { editQeReport: (each) => void each.set(bytes, offset) },
});

describe('a quote', () => {
  test.each([
    { version: 4, bodyType: 2 },
    { version: 5, bodyType: 2 },
    { version: 5, bodyType: 3 },
    { version: 5, bodyType: 4 },
  ] as const)(
    'of version $version with body $bodyType is accepted, with its platform and its TCB',
    async (quote) => {
      const verdict = await judge({ quote });
      expect(verdict).toMatchObject({ accepted: true, policyVersion: 'test@1' });
      expect(verdict.machineIdentity).toEqual({
        kind: 'tdx-platform',
        id: 'd6'.repeat(16),
        proof: 'endorsed',
      });
      expect(verdict.tcb).toMatchObject({ status: 'UpToDate', evaluationNumber: 17, fmspc: '90c06f000000' });
      expect([...verdict.measurements.keys()]).toEqual(['mrtd', 'rtmr0', 'rtmr1', 'rtmr2', 'rtmr3']);
    },
  );

  test('with zeros after it is accepted', async () => {
    await expect(judge({ quote: { tail: new Uint8Array(70) } })).resolves.toMatchObject({ accepted: true });
  });

  test('whose text of certificates does not end as C does is accepted', async () => {
    await expect(judge({ quote: { pemTail: '' } })).resolves.toMatchObject({ accepted: true });
  });

  test('of a platform that the policy lets be out of date is accepted, and the verdict says so', async () => {
    const tcbInfo = intel.tcbInfo(
      (info) => void Object.assign(info, { tcbLevels: (info['tcbLevels'] as unknown[]).slice(2) }),
    );
    const verdict = await judge({
      collateral: { tcbInfos: [tcbInfo] },
      rules: { tcbStatuses: ['UpToDate', 'OutOfDate'] },
    });
    expect(verdict.tcb).toMatchObject({ status: 'OutOfDate', advisories: 'INTEL-SA-00001' });
  });

  test('with a log that replays to its runtime registers is accepted', async () => {
    const { log, rtmrs } = runtimeLog();
    const verdict = await judge({ quote: { rtmrs }, eventLog: log, rules: { eventLog: 'required' } });
    expect(verdict.checks).toContainEqual({ name: 'event-log', outcome: 'pass' });
  });

  test('is judged by the newest TCB info of its platform', async () => {
    const older = intel.tcbInfo(
      (info) => void Object.assign(info, { issueDate: '2026-01-01T00:00:00Z', tcbLevels: [] }),
    );
    await expect(judge({ collateral: { tcbInfos: [older, intel.tcbInfo()] } })).resolves.toMatchObject({
      accepted: true,
    });
  });
});

const withTcbInfo = (edit: (info: Record<string, unknown>) => void): Given => ({
  collateral: { tcbInfos: [intel.tcbInfo(edit)] },
});
const withQeIdentity = (edit: (identity: Record<string, unknown>) => void): Given => ({
  collateral: { qeIdentities: [intel.qeIdentity(edit)] },
});
const withStatus = (tcbStatus: string): Given =>
  withTcbInfo(
    (info) =>
      void Object.assign(info, {
        tcbLevels: (info['tcbLevels'] as object[]).map((level) => ({ ...level, tcbStatus })),
      }),
  );

const cases: readonly { readonly name: string; readonly given: () => Given; readonly want: string }[] = [
  {
    name: 'of version 3',
    given: () => ({ raw: readFixture('tdx', 'sgx.quote') }),
    want: 'tdx-quote-version',
  },
  { name: 'of version 6', given: () => header(0, 6), want: 'tdx-quote-version' },
  { name: 'of an SGX enclave', given: () => header(4, 0), want: 'tdx-tee-type' },
  { name: 'with another kind of attestation key', given: () => header(2, 3), want: 'tdx-key-type' },
  { name: 'of another vendor’s quoting enclave', given: () => header(12, 0), want: 'tdx-qe-vendor' },
  {
    name: 'with a byte other than zero after it',
    given: () => ({ quote: { tail: Uint8Array.of(0, 1) } }),
    want: 'tdx-tail',
  },
  {
    name: 'whose body type and size do not fit',
    given: () => ({ raw: changed(intel.quote({ version: 5 }), 48, 2) }),
    want: 'tdx-body-type',
  },
  {
    name: 'with a body of an unknown type',
    given: () => ({ raw: changed(intel.quote({ version: 5 }), 48, 5) }),
    want: 'tdx-body-type',
  },
  {
    name: 'that is cut off',
    given: () => ({ raw: intel.quote().subarray(0, 900) }),
    want: 'tdx-quote-malformed',
  },
  {
    name: 'whose signature data is said to be longer',
    given: () => ({ raw: changed(intel.quote(), 633, 0xff) }),
    want: 'tdx-quote-malformed',
  },
  {
    name: 'whose certification data leaves a gap',
    given: () => ({ raw: shrunkCertification(intel.quote()) }),
    want: 'tdx-quote-malformed',
  },
  {
    name: 'without its certificates',
    given: () => ({ quote: { certificationType: 3 } }),
    want: 'tdx-certification-type',
  },
  {
    name: 'whose certificates are followed by text',
    given: () => ({ quote: { pemTail: 'x' } }),
    want: 'x509-pem-malformed',
  },
  {
    name: 'whose certificates are followed by two NULs',
    given: () => ({ quote: { pemTail: '\0\0' } }),
    want: 'x509-pem-malformed',
  },
  {
    name: 'with a chain of two',
    given: () => ({ quote: { chain: [intel.pck.der, intel.root.der] } }),
    want: 'tdx-pck-chain',
  },
  {
    name: 'with a chain of four',
    given: () => ({ quote: { chain: [intel.pck.der, intel.authority.der, intel.root.der, intel.root.der] } }),
    want: 'tdx-pck-chain',
  },
  {
    name: 'whose leaf is the authority',
    given: () => ({ quote: { chain: [intel.authority.der, intel.authority.der, intel.root.der] } }),
    want: 'tdx-pck-chain',
  },
  {
    name: 'signed with the TCB signer as its PCK',
    given: () => ({
      quote: { pck: intel.tcbSigner, chain: [intel.tcbSigner.der, intel.authority.der, intel.root.der] },
    }),
    want: 'tdx-pck-chain',
  },
  {
    name: 'whose PCK the TCB authority did not issue',
    given: () => ({ quote: { chain: [intel.pck.der, intel.processorAuthority.der, intel.root.der] } }),
    want: 'x509-issuer-mismatch',
  },
  {
    name: 'of a self-made Intel',
    given: () => ({ raw: new TestIntel().quote() }),
    want: 'x509-root-untrusted',
  },
  {
    name: 'whose PCK lacks the platform data',
    given: () => ({ quote: pckWith({ extensions: [{ oid: '1.2.3', value: der.nothing() }] }) }),
    want: 'tdx-pck-extension',
  },
  {
    name: 'whose PCK has the platform data twice',
    given: () => ({
      quote: pckWith({
        extensions: [
          { oid: '1.2.840.113741.1.13.1', value: intel.sgxExtension((fields) => [...fields, fields[0]!]) },
        ],
      }),
    }),
    want: 'tdx-pck-extension',
  },
  {
    name: 'whose PCK lacks the FMSPC',
    given: () => ({
      quote: pckWith({
        extensions: [
          { oid: '1.2.840.113741.1.13.1', value: intel.sgxExtension((fields) => fields.toSpliced(3, 1)) },
        ],
      }),
    }),
    want: 'tdx-pck-extension',
  },
  {
    name: 'whose quoting enclave another key signed',
    given: () => ({ quote: { pck: { ...intel.pck, key: generateKey('p256') } } }),
    want: 'tdx-qe-report-signature',
  },
  {
    name: 'whose quoting enclave vouches for another key',
    given: () => qeReport(320, 0),
    want: 'tdx-qe-report-data',
  },
  {
    name: 'whose quoting enclave’s report data does not end in zeros',
    given: () => qeReport(383, 1),
    want: 'tdx-qe-report-data',
  },
  {
    name: 'whose attestation key is off its curve',
    given: () => ({ quote: { attestationKey: new Uint8Array(64).fill(1) } }),
    want: 'tdx-attestation-key',
  },
  {
    name: 'signed by another key than the one vouched for',
    given: () => ({ quote: { attestationSigner: generateKey('p256') } }),
    want: 'tdx-signature',
  },
  { name: 'for another session', given: () => ({ binding: new Uint8Array(64) }), want: 'tdx-binding' },
  { name: 'with other report data', given: () => body(520, 0), want: 'tdx-binding' },
  { name: 'of an unknown MRTD', given: () => body(136, 0), want: 'attestation-register-mismatch' },
  {
    name: 'of a machine that is not listed',
    given: () => ({ policy: { machines: new Set(['tdx-platform:00']) } }),
    want: 'attestation-machine-unknown',
  },
  {
    name: 'of a TD under debug',
    given: () => ({ quote: { attributes: (1n << 28n) | 1n } }),
    want: 'tdx-debug',
  },
  {
    name: 'of a TD under profiling',
    given: () => ({ quote: { attributes: (1n << 28n) | 16n } }),
    want: 'tdx-debug',
  },
  {
    name: 'with a reserved attribute',
    given: () => ({ quote: { attributes: (1n << 28n) | (1n << 40n) } }),
    want: 'tdx-attributes',
  },
  {
    name: 'of a TD that can be migrated',
    given: () => ({ quote: { attributes: (1n << 28n) | (1n << 29n) } }),
    want: 'tdx-migration',
  },
  { name: 'without SEPT_VE_DISABLE', given: () => ({ quote: { attributes: 0n } }), want: 'tdx-sept-ve' },
  {
    name: 'with a service TD',
    given: () => ({ quote: { version: 5, editBody: (each) => void each.set([1], 600) } }),
    want: 'tdx-service-td',
  },
  {
    name: 'with the service TD extension',
    given: () => ({ quote: { attributes: (1n << 28n) | (1n << 17n) } }),
    want: 'tdx-service-td',
  },
  { name: 'with a MRCONFIGID where zero is asked for', given: () => body(184, 1), want: 'tdx-config-id' },
  {
    name: 'with another MROWNER',
    given: () => ({ rules: { mrOwner: ['11'.repeat(48)] } }),
    want: 'tdx-owner',
  },
  {
    name: 'with a MROWNERCONFIG where zero is asked for',
    given: () => body(280, 1),
    want: 'tdx-owner-config',
  },
  { name: 'of a TDX module without identity', given: () => body(1, 7), want: 'tdx-module-identity' },
  { name: 'of a TDX module of another signer', given: () => body(64, 1), want: 'tdx-module-identity' },
  { name: 'of a TDX module with attributes', given: () => body(112, 1), want: 'tdx-module-identity' },
  { name: 'of a TDX module below every level', given: () => body(0, 0), want: 'tdx-tcb-level' },
  { name: 'of a TDX module that is out of date', given: () => body(0, 2), want: 'tdx-tcb-status' },
  { name: 'of another quoting enclave', given: () => qeReport(128, 0), want: 'tdx-qe-identity' },
  { name: 'of a quoting enclave under debug', given: () => qeReport(48, 0x13), want: 'tdx-qe-identity' },
  {
    name: 'of another product of the quoting enclave’s signer',
    given: () => qeReport(256, 1),
    want: 'tdx-qe-identity',
  },
  { name: 'of a quoting enclave below every level', given: () => qeReport(258, 0), want: 'tdx-tcb-level' },
  { name: 'of a quoting enclave that is out of date', given: () => qeReport(258, 2), want: 'tdx-tcb-status' },
  {
    name: 'of a platform below every level',
    given: () =>
      withTcbInfo(
        (info) => void Object.assign(info, { tcbLevels: (info['tcbLevels'] as unknown[]).slice(0, 1) }),
      ),
    want: 'tdx-tcb-level',
  },
  { name: 'of a revoked TCB', given: () => withStatus('Revoked'), want: 'tdx-tcb-revoked' },
  { name: 'of an out-of-date TCB', given: () => withStatus('OutOfDate'), want: 'tdx-tcb-status' },
  {
    name: 'of a TCB that needs configuration',
    given: () => withStatus('ConfigurationNeeded'),
    want: 'tdx-tcb-status',
  },
  {
    name: 'whose launch TCB is revoked though it runs on a good one',
    given: () => ({ ...withStatus('Revoked'), quote: { version: 5 } }),
    want: 'tdx-tcb-revoked',
  },
  {
    name: 'with TCB info of another platform',
    given: () => withTcbInfo((info) => void Object.assign(info, { fmspc: '000000000000' })),
    want: 'tdx-tcb-info',
  },
  {
    name: 'with TCB info of another PCE',
    given: () => withTcbInfo((info) => void Object.assign(info, { pceId: '0001' })),
    want: 'tdx-tcb-info',
  },
  {
    name: 'with TCB info of SGX',
    given: () => withTcbInfo((info) => void Object.assign(info, { id: 'SGX' })),
    want: 'tdx-collateral-malformed',
  },
  {
    name: 'with the QE identity of SGX',
    given: () => withQeIdentity((identity) => void Object.assign(identity, { id: 'QE' })),
    want: 'tdx-collateral-malformed',
  },
  {
    name: 'with TCB info whose levels have no TDX parts',
    given: () => withTcbInfo((info) => void Object.assign(info, { tcbLevels: [{}] })),
    want: 'tdx-collateral-malformed',
  },
  {
    name: 'with TCB info that was reformatted',
    given: () => ({ collateral: { tcbInfos: [rewritten(intel.tcbInfo())] } }),
    want: 'tdx-collateral-signature',
  },
  {
    name: 'with a QE identity that was reformatted',
    given: () => ({ collateral: { qeIdentities: [rewritten(intel.qeIdentity())] } }),
    want: 'tdx-collateral-signature',
  },
  {
    name: 'with TCB info signed by the PCK',
    given: () => ({
      collateral: {
        tcbInfos: [intel.tcbInfo(undefined, intel.pck)],
        certificates: [intel.pck.der, intel.authority.der, intel.root.der],
      },
    }),
    want: 'tdx-collateral-signer',
  },
  { name: 'with TCB info of a self-made signer', given: () => selfMadeSigner(), want: 'x509-root-untrusted' },
  {
    name: 'with TCB info from the future',
    given: () => withTcbInfo((info) => void Object.assign(info, { issueDate: '2026-06-02T00:00:00Z' })),
    want: 'tdx-collateral-future',
  },
  {
    name: 'with TCB info past its next update',
    given: () => withTcbInfo((info) => void Object.assign(info, { nextUpdate: '2026-05-31T23:59:59Z' })),
    want: 'tdx-collateral-expired',
  },
  {
    name: 'with a QE identity from the future',
    given: () =>
      withQeIdentity((identity) => void Object.assign(identity, { issueDate: '2026-06-02T00:00:00Z' })),
    want: 'tdx-collateral-future',
  },
  {
    name: 'with a QE identity past its next update',
    given: () =>
      withQeIdentity((identity) => void Object.assign(identity, { nextUpdate: '2026-05-31T23:59:59Z' })),
    want: 'tdx-collateral-expired',
  },
  {
    name: 'with older collateral than the policy allows',
    given: () => ({ rules: { maxCollateralAgeMs: 3600_000 } }),
    want: 'tdx-collateral-age',
  },
  {
    name: 'with collateral of an older evaluation than the policy asks for',
    given: () => ({ rules: { minimumEvaluationNumber: 18 } }),
    want: 'tdx-evaluation-number',
  },
  {
    name: 'with collateral of an older evaluation than was seen',
    given: () => ({ collateral: { seenEvaluationNumber: 18 } }),
    want: 'tdx-evaluation-number',
  },
  {
    name: 'without TCB info',
    given: () => ({ collateral: { tcbInfos: [] } }),
    want: 'tdx-collateral-missing',
  },
  {
    name: 'without QE identity',
    given: () => ({ collateral: { qeIdentities: [] } }),
    want: 'tdx-collateral-missing',
  },
  { name: 'without CRLs', given: () => ({ collateral: { crls: [] } }), want: 'x509-crl-missing' },
  {
    name: 'with the CRL of the processor authority in place of the platform’s',
    given: () => ({
      collateral: {
        crls: [issueCrl({ issuer: intel.root }), issueCrl({ issuer: intel.processorAuthority })],
      },
    }),
    want: 'x509-crl-missing',
  },
  {
    name: 'of a revoked platform',
    given: () => ({
      collateral: {
        crls: [
          issueCrl({ issuer: intel.root }),
          issueCrl({ issuer: intel.authority, revoked: [intel.pck.serial] }),
        ],
      },
    }),
    want: 'x509-revoked',
  },
  {
    name: 'of a revoked platform, with an older list put before the one that revokes it',
    given: () => ({
      collateral: {
        crls: [
          issueCrl({ issuer: intel.root }),
          issueCrl({ issuer: intel.authority, thisUpdateMs: TEST_NOW_MS - 30 * 86_400_000 }),
          issueCrl({ issuer: intel.authority, revoked: [intel.pck.serial] }),
        ],
      },
    }),
    want: 'x509-revoked',
  },
  {
    name: 'under a revoked authority',
    given: () => ({
      collateral: {
        crls: [
          issueCrl({ issuer: intel.root, revoked: [intel.authority.serial] }),
          issueCrl({ issuer: intel.authority }),
        ],
      },
    }),
    want: 'x509-revoked',
  },
  {
    name: 'with a revoked TCB signer',
    given: () => ({
      collateral: {
        crls: [
          issueCrl({ issuer: intel.root, revoked: [intel.tcbSigner.serial] }),
          issueCrl({ issuer: intel.authority }),
        ],
      },
    }),
    want: 'x509-revoked',
  },
  {
    name: 'with a CRL past its next update',
    given: () => ({
      collateral: {
        crls: [
          issueCrl({ issuer: intel.root, nextUpdateMs: TEST_NOW_MS - 1000 }),
          issueCrl({ issuer: intel.authority }),
        ],
      },
    }),
    want: 'x509-crl-expired',
  },
  {
    name: 'with a CRL from the future',
    given: () => ({
      collateral: {
        crls: [
          issueCrl({ issuer: intel.root }),
          issueCrl({ issuer: intel.authority, thisUpdateMs: TEST_NOW_MS + DAY_MS }),
        ],
      },
    }),
    want: 'x509-crl-not-yet-valid',
  },
  {
    name: 'with a malformed CRL',
    given: () => ({ collateral: { crls: [Uint8Array.of(0x30, 0)] } }),
    want: 'x509-malformed',
  },
  {
    name: 'without the log that is required',
    given: () => ({ rules: { eventLog: 'required' } }),
    want: 'tdx-event-log',
  },
  {
    name: 'with a log that leads elsewhere',
    given: () => ({ eventLog: runtimeLog().log }),
    want: 'tdx-event-log',
  },
  {
    name: 'with a log that is none',
    given: () => ({ eventLog: Uint8Array.of(1, 2, 3) }),
    want: 'eventlog-truncated',
  },
];

describe('a quote is refused', () => {
  test.each(cases)('$name', async ({ given, want }) => {
    const refusal = await judge(given()).catch((error: unknown) => error);
    expect(refusal).toMatchObject({ code: want });
    expect(refusal).toBeInstanceOf(AttestationError);
  });

  test('when the policy or the collateral has no section for it', async () => {
    const validator = new TdxValidator({ trust: intel.trust, cache: new CertificateCache() });
    const context = {
      nowMs: TEST_NOW_MS,
      policy: { version: '1', registers: new Map(), machines: 'any' as const },
      collateral: {},
    };
    await expect(validator.validate(new Uint8Array(), BINDING, context)).rejects.toMatchObject({
      code: 'attestation-policy-missing',
    });
  });

  test('without collateral under a policy', () => {
    const options = {
      trust: intel.trust,
      cache: new CertificateCache(),
      collateral: undefined,
      nowMs: TEST_NOW_MS,
      binding: BINDING,
      policy: policyWith(),
    };
    expect(() => verifyTdxEvidence(intel.quote(), options)).toThrow(
      expect.objectContaining({ code: 'tdx-collateral-missing' }),
    );
  });
});

describe('real quotes', () => {
  const cache = new CertificateCache();
  const real = (name: string, at: string, collateral?: readonly string[]) => ({
    quote: readFixture('tdx', `${name}.quote`),
    options: {
      trust: intelTrust(),
      cache,
      nowMs: Date.parse(at),
      policy: 'not-judged',
      binding: 'not-judged',
      collateral: collateral && prepareCollateral(collateralOf(collateral), cache),
    } as const,
  });

  test.each([
    {
      name: 'v4',
      at: '2025-06-20',
      tcb: { status: 'UpToDate', fmspc: 'b0c06f000000' },
      claims: { quoteVersion: 4, bodyType: 2 },
    },
    {
      name: 'v5-td15ex',
      at: '2026-10-10',
      tcb: { status: 'UpToDate', fmspc: 'b0c06f000000' },
      claims: { quoteVersion: 5, bodyType: 4 },
    },
  ])('of $name are genuine and up to date', ({ name, at, tcb, claims }) => {
    const { quote, options } = real(name, at, [`${name}.collateral`]);
    expect(verifyTdxEvidence(quote, options)).toMatchObject({ accepted: true, tcb, claims });
  });

  test('inspected without a policy lead to a warning for what every sensible policy refuses', () => {
    const options = {
      trust: intel.trust,
      cache,
      nowMs: TEST_NOW_MS,
      policy: 'not-judged',
      binding: 'not-judged',
    } as const;
    const old = intel.tcbInfo(
      (info) => void Object.assign(info, { tcbLevels: (info['tcbLevels'] as unknown[]).slice(2) }),
    );
    const collateral = prepareCollateral({ ...intel.collateral(), tcbInfos: [old] }, cache);
    const { warnings } = verifyTdxEvidence(intel.quote({ attributes: 1n }), { ...options, collateral });
    expect(warnings).toEqual([
      'tcb-status: expected UpToDate, found OutOfDate INTEL-SA-00001',
      'debug: expected false, found true',
    ]);
  });

  test('of a platform below every level are refused, as Intel’s library does', () => {
    const { quote, options } = real('v5-td15', '2026-02-20', ['v5-td15.collateral']);
    expect(() => verifyTdxEvidence(quote, options)).toThrow(
      expect.objectContaining({ code: 'tdx-tcb-level' }),
    );
    expect(verifyTdxEvidence(quote, { ...options, collateral: undefined }).claims).toMatchObject({
      quoteVersion: 5,
      bodyType: 3,
    });
  });

  test('with text after them are refused, and without it accepted', () => {
    const { quote, options } = real('v4-tail', '2023-07-01');
    expect(() => verifyTdxEvidence(quote, options)).toThrow(expect.objectContaining({ code: 'tdx-tail' }));
    expect(verifyTdxEvidence(quote.subarray(0, quote.length - 39), options).accepted).toBe(true);
  });

  test('with collateral of another platform are refused, though Intel signed it', () => {
    const files = [
      'v4-tail.tcb-info',
      'v4-tail.qe-identity',
      'v4-tail.tcb-chain',
      'v4-tail.pck-crl',
      'v4-tail.root-crl',
    ];
    const { quote, options } = real('v4', '2023-07-01', files);
    expect(() => verifyTdxEvidence(quote, options)).toThrow(
      expect.objectContaining({ code: expect.stringMatching(/^(tdx-tcb-info|x509-)/) }),
    );
  });

  test('are refused with expired collateral', () => {
    const { quote, options } = real('v4', '2026-11-21', ['v4.collateral']);
    expect(() => verifyTdxEvidence(quote, options)).toThrow(
      expect.objectContaining({ code: 'x509-crl-expired' }),
    );
  });

  test('are refused with any byte changed, certificates included', () => {
    let cases = 0;
    for (const name of ['v4', 'v5-td15ex']) {
      const { quote, options } = real(name, '2026-10-10');
      expect(verifyTdxEvidence(quote, options).accepted).toBe(true);
      for (let at = 0; at < quote.length; at++, cases++) {
        const bad = changed(quote, at, (quote[at] ?? 0) ^ (1 << (at % 8)));
        if (isAccepted(() => verifyTdxEvidence(bad, options)))
          throw new Error(`accepted: ${name}, byte ${at}`);
      }
    }
    expect(cases).toBe(5006 + 5247);
  });

  test('are refused with any byte of TCB info, QE identity or CRL changed', () => {
    const { quote, options } = real('v4', '2025-06-20');
    const raw = collateralOf(['v4.collateral']);
    const checks = new CheckList(tdxErrors, 'reading collateral');
    const isPinned = (): boolean => true;
    const trust = { cache, nowMs: options.nowMs, isPinned, checks };
    const fmspc = Buffer.from('b0c06f000000', 'hex');
    // Of the lists only the root's is needed for these two, and it is the short one.
    const read = (edited: Partial<TdxCollateral>) =>
      prepareCollateral({ ...raw, crls: raw.crls.slice(0, 1), ...edited }, cache);
    const readers = {
      tcbInfos: (documents: TdxCollateral['tcbInfos']) => read({ tcbInfos: documents }).tcbInfo(fmspc, trust),
      qeIdentities: (documents: TdxCollateral['qeIdentities']) =>
        read({ qeIdentities: documents }).qeIdentity(trust),
    };
    let cases = 0;
    for (const key of ['tcbInfos', 'qeIdentities'] as const) {
      const [signed] = raw[key];
      const text = Buffer.from(signed?.text ?? '');
      const signature = signed?.signature ?? new Uint8Array();
      expect(isAccepted(() => readers[key](raw[key]))).toBe(true);
      for (let at = 0; at < text.length; at++, cases++) {
        const edited = [{ text: changedText(text, at), signature }];
        if (isAccepted(() => readers[key](edited))) throw new Error(`accepted: ${key}, byte ${at}`);
      }
    }
    const judgeWith = (crls: readonly Uint8Array[]) =>
      verifyTdxEvidence(quote, { ...options, collateral: prepareCollateral({ ...raw, crls }, cache) });
    expect(judgeWith(raw.crls).accepted).toBe(true);
    for (const [index, crl] of raw.crls.entries()) {
      for (let at = 0; at < crl.length; at++, cases++) {
        const edited = raw.crls.with(index, changed(crl, at, (crl[at] ?? 0) ^ (1 << (at % 8))));
        if (isAccepted(() => judgeWith(edited))) throw new Error(`accepted: CRL ${index}, byte ${at}`);
      }
    }
    expect(cases).toBeGreaterThan(6000);
  });
});

describe('parsers', () => {
  test('of documents give back what was written', () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.option(fc.uint8Array(), { nil: undefined }), (quote, eventLog) => {
        expect(decodeTdxEvidence(encodeTdxEvidence({ quote, eventLog }))).toEqual({ quote, eventLog });
      }),
    );
  });

  test('of quotes read or refuse by code, whatever the bytes are', () => {
    const seeds = [intel.quote(), intel.quote({ version: 5 }), readFixture('tdx', 'v5-td15ex.quote')];
    expect(fuzz({ seeds, parse: (input) => parseQuote(input), codes: ['tdx-'] }).refused).toBeGreaterThan(0);
  });

  test('of collateral read or refuse by code, whatever the bytes are', () => {
    const seeds = ['v4.collateral', 'v4-tail.tcb-info', 'v4-tail.pck-crl', 'v4-tail.tcb-chain'].map((name) =>
      readFixture('tdx', name),
    );
    expect(fuzz({ seeds, parse: readCollateralFile, codes: ['collateral-'] }).refused).toBeGreaterThan(0);
  });
});

function collateralOf(names: readonly string[]): TdxCollateral {
  const { tdx } = collateralFrom(names.flatMap((name) => readCollateralFile(readFixture('tdx', name))));
  if (tdx === undefined) throw new Error('no TDX collateral');
  return tdx;
}

function changed(bytes: Uint8Array, offset: number, value: number): Uint8Array {
  return Uint8Array.from(bytes).with(offset, value);
}

function changedText(text: Uint8Array, at: number): string {
  return Buffer.from(changed(text, at, (text[at] ?? 0) ^ 1)).toString('utf8');
}

/** The same content in another form: what a program does that parses and writes again. */
function rewritten({ text, signature }: { readonly text: string; readonly signature: Uint8Array }) {
  return { text: JSON.stringify(JSON.parse(text), undefined, 1), signature };
}

function pckWith(options: Parameters<TestIntel['makePck']>[0]): TestQuoteOptions {
  const pck = intel.makePck(options);
  return { pck, chain: [pck.der, intel.authority.der, intel.root.der] };
}

function selfMadeSigner(): Given {
  const root = issueCertificate({
    name: [['CN', 'Intel SGX Root CA']],
    key: generateKey('p256'),
    ca: {},
    keyUsage: [5, 6],
  });
  const signer = issueCertificate({
    name: [['CN', 'Intel SGX TCB Signing']],
    key: generateKey('p256'),
    issuer: root,
    keyUsage: [0],
  });
  return {
    collateral: { tcbInfos: [intel.tcbInfo(undefined, signer)], certificates: [signer.der, root.der] },
  };
}

/** One byte less in the size of the certification data, so that its last byte belongs to nobody. */
function shrunkCertification(quote: Uint8Array): Uint8Array {
  const offset = 48 + 584 + 4 + 128 + 2;
  const view = Buffer.from(quote);
  view.writeUInt32LE(view.readUInt32LE(offset) - 1, offset);
  return new Uint8Array(view);
}

/** A CCEL with one event in each of RTMR0 and RTMR1, and the registers it leads to. */
function runtimeLog(): { readonly log: Uint8Array; readonly rtmrs: readonly Uint8Array[] } {
  const u16 = (value: number): Buffer => Buffer.from([value & 0xff, value >> 8]);
  const u32 = (value: number): Buffer => Buffer.concat([u16(value & 0xffff), u16(value >>> 16)]);
  const spec = Buffer.concat([
    Buffer.from('Spec ID Event03\0'),
    u32(0),
    Buffer.of(0, 2, 0, 2),
    u32(1),
    u16(0x0c),
    u16(48),
    Buffer.of(0),
  ]);
  const head = Buffer.concat([u32(0), u32(3), Buffer.alloc(20), u32(spec.length), spec]);
  const digest = createHash('sha384').update('an event').digest();
  const event = (register: number): Buffer =>
    Buffer.concat([u32(register), u32(13), u32(1), u16(0x0c), digest, u32(8), Buffer.from('an event')]);
  const rtmr = createHash('sha384').update(Buffer.alloc(48)).update(digest).digest();
  return { log: new Uint8Array(Buffer.concat([head, event(1), event(2)])), rtmrs: [rtmr, rtmr] };
}

function isAccepted(work: () => unknown): boolean {
  try {
    work();
    return true;
  } catch (error) {
    if (error instanceof AttestationError) return false;
    throw error;
  }
}
