import { beforeAll, describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import {
  failedChecks,
  passedChecks,
  readFixture,
  TestIntel,
  type TestQuoteOptions,
} from '../../testing/evidence/index.ts';
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

describe('TdxValidator', () => {
  test.each([
    { version: 4, bodyType: 2 },
    { version: 5, bodyType: 2 },
    { version: 5, bodyType: 3 },
    { version: 5, bodyType: 4 },
  ] as const)(
    'accepts a quote of version $version with body $bodyType, and returns its platform and TCB',
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

  test('accepts a quote with trailing zeros', async () => {
    await expect(judge({ quote: { tail: new Uint8Array(70) } })).resolves.toMatchObject({ accepted: true });
  });

  test('accepts a quote whose certificate text has no terminating NUL', async () => {
    await expect(judge({ quote: { pemTail: '' } })).resolves.toMatchObject({ accepted: true });
  });

  test('accepts an out-of-date platform if the policy allows it, and returns that TCB status', async () => {
    const tcbInfo = intel.tcbInfo(
      (info) => void Object.assign(info, { tcbLevels: (info['tcbLevels'] as unknown[]).slice(2) }),
    );
    const verdict = await judge({
      collateral: { tcbInfos: [tcbInfo] },
      rules: { tcbStatuses: ['UpToDate', 'OutOfDate'] },
    });
    expect(verdict.tcb).toMatchObject({ status: 'OutOfDate', advisories: 'INTEL-SA-00001' });
  });

  test('accepts a quote with an event log that replays to its runtime registers', async () => {
    const { log, rtmrs } = runtimeLog();
    const verdict = await judge({ quote: { rtmrs }, eventLog: log, rules: { eventLog: 'required' } });
    expect(verdict.checks).toContainEqual({ name: 'event-log', outcome: 'pass' });
  });

  test('uses the newest TCB info of the platform', async () => {
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
    name: 'a quote of version 3',
    given: () => ({ raw: readFixture('tdx', 'sgx.quote') }),
    want: 'tdx-quote-version',
  },
  { name: 'a quote of version 6', given: () => header(0, 6), want: 'tdx-quote-version' },
  { name: 'a quote of an SGX enclave', given: () => header(4, 0), want: 'tdx-tee-type' },
  {
    name: 'a quote with an unknown type of attestation key',
    given: () => header(2, 3),
    want: 'tdx-key-type',
  },
  {
    name: 'a quote by a quoting enclave of another vendor than Intel',
    given: () => header(12, 0),
    want: 'tdx-qe-vendor',
  },
  {
    name: 'a quote with a non-zero trailing byte',
    given: () => ({ quote: { tail: Uint8Array.of(0, 1) } }),
    want: 'tdx-tail',
  },
  {
    name: 'a quote whose body type does not match its body size',
    given: () => ({ raw: changed(intel.quote({ version: 5 }), 48, 2) }),
    want: 'tdx-body-type',
  },
  {
    name: 'a quote with a body of an unknown type',
    given: () => ({ raw: changed(intel.quote({ version: 5 }), 48, 5) }),
    want: 'tdx-body-type',
  },
  {
    name: 'a truncated quote',
    given: () => ({ raw: intel.quote().subarray(0, 900) }),
    want: 'tdx-quote-malformed',
  },
  {
    name: 'a quote whose signature data claims to be longer than it is',
    given: () => ({ raw: changed(intel.quote(), 633, 0xff) }),
    want: 'tdx-quote-malformed',
  },
  {
    name: 'a quote whose certification data leaves an unused byte',
    given: () => ({ raw: withUnusedByte(intel.quote()) }),
    want: 'tdx-quote-malformed',
  },
  {
    name: 'a quote whose certification data is longer than announced',
    given: () => ({ raw: shrunkCertification(intel.quote()) }),
    want: 'tdx-quote-malformed',
  },
  {
    name: 'a quote without its certificate chain',
    given: () => ({ quote: { certificationType: 3 } }),
    want: 'tdx-certification-type',
  },
  {
    name: 'a quote with text after its certificates',
    given: () => ({ quote: { pemTail: 'x' } }),
    want: 'x509-pem-malformed',
  },
  {
    name: 'a quote with two NULs after its certificates',
    given: () => ({ quote: { pemTail: '\0\0' } }),
    want: 'x509-pem-malformed',
  },
  {
    name: 'a quote with a chain of two certificates',
    given: () => ({ quote: { chain: [intel.pck.der, intel.root.der] } }),
    want: 'tdx-pck-chain',
  },
  {
    name: 'a quote with a chain of four certificates',
    given: () => ({ quote: { chain: [intel.pck.der, intel.authority.der, intel.root.der, intel.root.der] } }),
    want: 'tdx-pck-chain',
  },
  {
    name: 'a quote whose leaf certificate is the platform CA',
    given: () => ({ quote: { chain: [intel.authority.der, intel.authority.der, intel.root.der] } }),
    want: 'tdx-pck-chain',
  },
  {
    name: 'a quote whose PCK certificate is the TCB signing certificate',
    given: () => ({
      quote: { pck: intel.tcbSigner, chain: [intel.tcbSigner.der, intel.authority.der, intel.root.der] },
    }),
    want: 'tdx-pck-chain',
  },
  {
    name: 'a quote whose PCK certificate is under the wrong CA',
    given: () => ({ quote: { chain: [intel.pck.der, intel.processorAuthority.der, intel.root.der] } }),
    want: 'x509-issuer-mismatch',
  },
  {
    name: 'a quote under a self-made root CA with Intel’s name',
    given: () => ({ raw: new TestIntel().quote() }),
    want: 'x509-root-untrusted',
  },
  {
    name: 'a quote whose PCK certificate lacks the platform data',
    given: () => ({ quote: pckWith({ extensions: [{ oid: '1.2.3', value: der.nothing() }] }) }),
    want: 'tdx-pck-extension',
  },
  {
    name: 'a quote whose PCK certificate has duplicate platform data',
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
    name: 'a quote whose PCK certificate lacks the FMSPC',
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
    name: 'a quote whose quoting enclave was not signed by its PCK',
    given: () => ({ quote: { pck: { ...intel.pck, key: generateKey('p256') } } }),
    want: 'tdx-qe-report-signature',
  },
  {
    name: 'a quote whose quoting enclave certifies another attestation key',
    given: () => qeReport(320, 0),
    want: 'tdx-qe-report-data',
  },
  {
    name: 'a quote whose quoting-enclave report data does not end in zeros',
    given: () => qeReport(383, 1),
    want: 'tdx-qe-report-data',
  },
  {
    name: 'a quote whose attestation key is not on the curve',
    given: () => ({ quote: { attestationKey: new Uint8Array(64).fill(1) } }),
    want: 'tdx-attestation-key',
  },
  {
    name: 'a quote signed with another key than the certified attestation key',
    given: () => ({ quote: { attestationSigner: generateKey('p256') } }),
    want: 'tdx-signature',
  },
  {
    name: 'a quote for another session',
    given: () => ({ binding: new Uint8Array(64) }),
    want: 'tdx-binding',
  },
  { name: 'a quote whose report data was changed', given: () => body(520, 0), want: 'tdx-binding' },
  { name: 'a quote with an unknown MRTD', given: () => body(136, 0), want: 'attestation-register-mismatch' },
  {
    name: 'a quote of a machine that is not listed',
    given: () => ({ policy: { machines: new Set(['tdx-platform:00']) } }),
    want: 'attestation-machine-unknown',
  },
  {
    name: 'a quote of a TD in debug mode',
    given: () => ({ quote: { attributes: (1n << 28n) | 1n } }),
    want: 'tdx-debug',
  },
  {
    name: 'a quote of a TD in profiling mode',
    given: () => ({ quote: { attributes: (1n << 28n) | 16n } }),
    want: 'tdx-debug',
  },
  {
    name: 'a quote with a reserved TD attribute set',
    given: () => ({ quote: { attributes: (1n << 28n) | (1n << 40n) } }),
    want: 'tdx-attributes',
  },
  {
    name: 'a quote of a TD that can be migrated',
    given: () => ({ quote: { attributes: (1n << 28n) | (1n << 29n) } }),
    want: 'tdx-migration',
  },
  {
    name: 'a quote of a TD without SEPT_VE_DISABLE',
    given: () => ({ quote: { attributes: 0n } }),
    want: 'tdx-sept-ve',
  },
  {
    name: 'a quote of a TD with a service TD',
    given: () => ({ quote: { version: 5, editBody: (each) => void each.set([1], 600) } }),
    want: 'tdx-service-td',
  },
  {
    name: 'a quote of a TD with the service-TD extension',
    given: () => ({ quote: { attributes: (1n << 28n) | (1n << 17n) } }),
    want: 'tdx-service-td',
  },
  {
    name: 'a quote with a non-zero MRCONFIGID while the policy requires zero',
    given: () => body(184, 1),
    want: 'tdx-config-id',
  },
  {
    name: 'a quote with an MROWNER that the policy does not list',
    given: () => ({ rules: { mrOwner: ['11'.repeat(48)] } }),
    want: 'tdx-owner',
  },
  {
    name: 'a quote with a non-zero MROWNERCONFIG while the policy requires zero',
    given: () => body(280, 1),
    want: 'tdx-owner-config',
  },
  {
    name: 'a quote of a TDX module version without an identity in the TCB info',
    given: () => body(1, 7),
    want: 'tdx-module-identity',
  },
  {
    name: 'a quote of a TDX module of another signer',
    given: () => body(64, 1),
    want: 'tdx-module-identity',
  },
  {
    name: 'a quote of a TDX module with non-zero SEAM attributes',
    given: () => body(112, 1),
    want: 'tdx-module-identity',
  },
  { name: 'a quote of a TDX module below every TCB level', given: () => body(0, 0), want: 'tdx-tcb-level' },
  { name: 'a quote of an out-of-date TDX module', given: () => body(0, 2), want: 'tdx-tcb-status' },
  { name: 'a quote of an unknown quoting enclave', given: () => qeReport(128, 0), want: 'tdx-qe-identity' },
  {
    name: 'a quote of a quoting enclave in debug mode',
    given: () => qeReport(48, 0x13),
    want: 'tdx-qe-identity',
  },
  {
    name: 'a quote by another enclave that has the same signer as the quoting enclave',
    given: () => qeReport(256, 1),
    want: 'tdx-qe-identity',
  },
  {
    name: 'a quote of a quoting enclave below every TCB level',
    given: () => qeReport(258, 0),
    want: 'tdx-tcb-level',
  },
  {
    name: 'a quote of an out-of-date quoting enclave',
    given: () => qeReport(258, 2),
    want: 'tdx-tcb-status',
  },
  {
    name: 'a quote of a platform below every TCB level',
    given: () =>
      withTcbInfo(
        (info) => void Object.assign(info, { tcbLevels: (info['tcbLevels'] as unknown[]).slice(0, 1) }),
      ),
    want: 'tdx-tcb-level',
  },
  {
    name: 'a quote of a platform with a revoked TCB',
    given: () => withStatus('Revoked'),
    want: 'tdx-tcb-revoked',
  },
  {
    name: 'a quote of a platform with an out-of-date TCB',
    given: () => withStatus('OutOfDate'),
    want: 'tdx-tcb-status',
  },
  {
    name: 'a quote of a platform whose TCB needs configuration',
    given: () => withStatus('ConfigurationNeeded'),
    want: 'tdx-tcb-status',
  },
  {
    name: 'a quote whose launch TCB is revoked although the current TCB is up to date',
    given: () => ({ ...withStatus('Revoked'), quote: { version: 5 } }),
    want: 'tdx-tcb-revoked',
  },
  {
    name: 'a quote with TCB info of another platform',
    given: () => withTcbInfo((info) => void Object.assign(info, { fmspc: '000000000000' })),
    want: 'tdx-tcb-info',
  },
  {
    name: 'a quote with TCB info for another PCE id',
    given: () => withTcbInfo((info) => void Object.assign(info, { pceId: '0001' })),
    want: 'tdx-tcb-info',
  },
  {
    name: 'a quote with TCB info for SGX',
    given: () => withTcbInfo((info) => void Object.assign(info, { id: 'SGX' })),
    want: 'tdx-collateral-malformed',
  },
  {
    name: 'a quote with a QE identity for SGX',
    given: () => withQeIdentity((identity) => void Object.assign(identity, { id: 'QE' })),
    want: 'tdx-collateral-malformed',
  },
  {
    name: 'a quote with TCB info whose levels lack TDX components',
    given: () => withTcbInfo((info) => void Object.assign(info, { tcbLevels: [{}] })),
    want: 'tdx-collateral-malformed',
  },
  {
    name: 'a quote with TCB info whose JSON was reformatted',
    given: () => ({ collateral: { tcbInfos: [rewritten(intel.tcbInfo())] } }),
    want: 'tdx-collateral-signature',
  },
  {
    name: 'a quote with a QE identity whose JSON was reformatted',
    given: () => ({ collateral: { qeIdentities: [rewritten(intel.qeIdentity())] } }),
    want: 'tdx-collateral-signature',
  },
  {
    name: 'a quote with TCB info signed by the PCK',
    given: () => ({
      collateral: {
        tcbInfos: [intel.tcbInfo(undefined, intel.pck)],
        certificates: [intel.pck.der, intel.authority.der, intel.root.der],
      },
    }),
    want: 'tdx-collateral-signer',
  },
  {
    name: 'a quote with TCB info signed under a self-made root',
    given: () => selfMadeSigner(),
    want: 'x509-root-untrusted',
  },
  {
    name: 'a quote with TCB info that is not valid yet',
    given: () => withTcbInfo((info) => void Object.assign(info, { issueDate: '2026-06-02T00:00:00Z' })),
    want: 'tdx-collateral-future',
  },
  {
    name: 'a quote with TCB info past its next update',
    given: () => withTcbInfo((info) => void Object.assign(info, { nextUpdate: '2026-05-31T23:59:59Z' })),
    want: 'tdx-collateral-expired',
  },
  {
    name: 'a quote with a QE identity that is not valid yet',
    given: () =>
      withQeIdentity((identity) => void Object.assign(identity, { issueDate: '2026-06-02T00:00:00Z' })),
    want: 'tdx-collateral-future',
  },
  {
    name: 'a quote with a QE identity past its next update',
    given: () =>
      withQeIdentity((identity) => void Object.assign(identity, { nextUpdate: '2026-05-31T23:59:59Z' })),
    want: 'tdx-collateral-expired',
  },
  {
    name: 'a quote with collateral older than the policy allows',
    given: () => ({ rules: { maxCollateralAgeMs: 3600_000 } }),
    want: 'tdx-collateral-age',
  },
  {
    name: 'a quote with collateral below the evaluation number of the policy',
    given: () => ({ rules: { minimumEvaluationNumber: 18 } }),
    want: 'tdx-evaluation-number',
  },
  {
    name: 'a quote with collateral below the highest evaluation number used before',
    given: () => ({ collateral: { seenEvaluationNumber: 18 } }),
    want: 'tdx-evaluation-number',
  },
  {
    name: 'a quote without TCB info',
    given: () => ({ collateral: { tcbInfos: [] } }),
    want: 'tdx-collateral-missing',
  },
  {
    name: 'a quote without a QE identity',
    given: () => ({ collateral: { qeIdentities: [] } }),
    want: 'tdx-collateral-missing',
  },
  { name: 'a quote without CRLs', given: () => ({ collateral: { crls: [] } }), want: 'x509-crl-missing' },
  {
    name: 'a quote with the processor CA’s CRL in place of the platform CA’s',
    given: () => ({
      collateral: {
        crls: [issueCrl({ issuer: intel.root }), issueCrl({ issuer: intel.processorAuthority })],
      },
    }),
    want: 'x509-crl-missing',
  },
  {
    name: 'a quote of a revoked platform',
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
    name: 'a quote of a revoked platform, also if an older CRL precedes the CRL that revokes the platform',
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
    name: 'a quote under a revoked platform CA',
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
    name: 'a quote with TCB info whose signing certificate was revoked',
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
    name: 'a quote with a CRL past its next update',
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
    name: 'a quote with a CRL that is not valid yet',
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
    name: 'a quote with a malformed CRL',
    given: () => ({ collateral: { crls: [Uint8Array.of(0x30, 0)] } }),
    want: 'x509-malformed',
  },
  {
    name: 'a quote without the event log that the policy requires',
    given: () => ({ rules: { eventLog: 'required' } }),
    want: 'tdx-event-log',
  },
  {
    name: 'a quote with an event log that does not replay to its registers',
    given: () => ({ eventLog: runtimeLog().log }),
    want: 'tdx-event-log',
  },
  {
    name: 'a quote with a malformed event log',
    given: () => ({ eventLog: Uint8Array.of(1, 2, 3) }),
    want: 'eventlog-truncated',
  },
];

describe('TDX verification refuses', () => {
  test.each(cases)('$name', async ({ given, want }) => {
    const refusal = await judge(given()).catch((error: unknown) => error);
    expect(refusal).toMatchObject({ code: want });
    expect(refusal).toBeInstanceOf(AttestationError);
  });

  test('evidence with the name of the failed check that the check has when it passes', async () => {
    const { log, rtmrs } = runtimeLog();
    const older = intel.tcbInfo((info) => void Object.assign(info, { issueDate: '2026-01-01T00:00:00Z' }));
    const accepted: readonly Given[] = [
      { quote: { rtmrs }, eventLog: log },
      { quote: { version: 5, bodyType: 4 } },
      { collateral: { tcbInfos: [older, intel.tcbInfo()] } },
    ];
    const passed = await passedChecks(accepted.map((given) => judge(given)));
    const failed = await failedChecks(cases.map(({ given }) => judge(given())));
    // Certificates and CRLs are parsed once, before there is evidence.
    expect(failed.filter((name) => !passed.has(name))).toEqual(['collateral-malformed']);
  });

  test('a quote when the policy or the collateral has no section for TDX', async () => {
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

  test('a quote when there is a policy but no collateral', () => {
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

describe('TDX quotes recorded from real machines', () => {
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
  ])('fixture $name is a genuine quote of an up-to-date platform', ({ name, at, tcb, claims }) => {
    const { quote, options } = real(name, at, [`${name}.collateral`]);
    expect(verifyTdxEvidence(quote, options)).toMatchObject({ accepted: true, tcb, claims });
  });

  test('inspection without a policy warns about everything that a production policy refuses', () => {
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

  test('a quote of a platform below every TCB level is refused, as Intel’s library refuses it', () => {
    const { quote, options } = real('v5-td15', '2026-02-20', ['v5-td15.collateral']);
    expect(() => verifyTdxEvidence(quote, options)).toThrow(
      expect.objectContaining({ code: 'tdx-tcb-level' }),
    );
    expect(verifyTdxEvidence(quote, { ...options, collateral: undefined }).claims).toMatchObject({
      quoteVersion: 5,
      bodyType: 3,
    });
  });

  test('a quote with trailing text is refused, and accepted without the text', () => {
    const { quote, options } = real('v4-tail', '2023-07-01');
    expect(() => verifyTdxEvidence(quote, options)).toThrow(expect.objectContaining({ code: 'tdx-tail' }));
    expect(verifyTdxEvidence(quote.subarray(0, quote.length - 39), options).accepted).toBe(true);
  });

  test('genuine collateral of another platform is refused', () => {
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

  test('expired collateral is refused', () => {
    const { quote, options } = real('v4', '2026-11-21', ['v4.collateral']);
    expect(() => verifyTdxEvidence(quote, options)).toThrow(
      expect.objectContaining({ code: 'x509-crl-expired' }),
    );
  });

  test('a change of any byte in a quote or its certificates is refused', () => {
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

  test('a change of any byte in TCB info, QE identity or CRL is refused', () => {
    const { quote, options } = real('v4', '2025-06-20');
    const raw = collateralOf(['v4.collateral']);
    const checks = new CheckList(tdxErrors, 'reading collateral');
    const isPinned = (): boolean => true;
    const trust = { cache, nowMs: options.nowMs, isPinned, checks };
    const fmspc = Buffer.from('b0c06f000000', 'hex');
    // Both documents need only the CRL of the root. Parsing only this shortest CRL makes the loop fast.
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

describe('TDX parsers', () => {
  test('decodeTdxEvidence() returns what encodeTdxEvidence() encoded', () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.option(fc.uint8Array(), { nil: undefined }), (quote, eventLog) => {
        expect(decodeTdxEvidence(encodeTdxEvidence({ quote, eventLog }))).toEqual({ quote, eventLog });
      }),
    );
  });

  test('arbitrary quotes are either parsed or refused with an error code', () => {
    const seeds = [intel.quote(), intel.quote({ version: 5 }), readFixture('tdx', 'v5-td15ex.quote')];
    expect(fuzz({ seeds, parse: (input) => parseQuote(input), codes: ['tdx-'] }).refused).toBeGreaterThan(0);
  });

  test('arbitrary collateral is either parsed or refused with an error code', () => {
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

/** The same JSON in another format, as from a program that parses and encodes it again. */
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

/**
 * A quote whose certification data has one unused byte at its end. Every length field around the data includes this
 * byte.
 */
function withUnusedByte(quote: Uint8Array): Uint8Array {
  const offset = 48 + 584;
  const view = Buffer.concat([quote, Buffer.of(0)]);
  view.writeUInt32LE(view.readUInt32LE(offset) + 1, offset);
  return new Uint8Array(view);
}

/** The certification data, one byte longer than the quote announces. */
function shrunkCertification(quote: Uint8Array): Uint8Array {
  const offset = 48 + 584 + 4 + 128 + 2;
  const view = Buffer.from(quote);
  view.writeUInt32LE(view.readUInt32LE(offset) - 1, offset);
  return new Uint8Array(view);
}

/** A CCEL with one event in each of RTMR0 and RTMR1, and the register values after its replay. */
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
