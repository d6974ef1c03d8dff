import { describe, expect, test } from '@jest/globals';
import { fileURLToPath } from 'node:url';
import { readFileSync } from 'node:fs';
import { createPublicKey, type KeyObject } from 'node:crypto';
import { CompositeIssuer } from '../../internal/attestation/policy/index.ts';
import { generateKeyPem } from '../../internal/pki/index.ts';
import { keyObjectOf, parsePublic } from '../../internal/tpm/index.ts';
import { FakeClock, FakeCommands, MemoryFiles } from '../../internal/testing/index.ts';
import { parseBundle } from '../../internal/attestation/collateral/index.ts';
import { encodeSnpEvidence } from '../../internal/attestation/snp/index.ts';
import { TestAmd } from '../../internal/testing/evidence/index.ts';
import { issueCrl } from '../../internal/testing/pki/index.ts';
import { RecordingHost } from '../host/fake-host.ts';
import { runAttestCollateral, runAttestExplain, type ExplainOptions, type Explanation } from './index.ts';
import { noPassphrases } from '../workspace/fake-passphrases.ts';

const fixture = (relative: string): Uint8Array =>
  new Uint8Array(readFileSync(fileURLToPath(new URL(relative, import.meta.url))));
const DIRECTORIES = [
  '../../internal/attestation/snp/fixtures/',
  '../../internal/attestation/tdx/fixtures/',
  './fixtures/',
];
const NAMES = [
  ['milan.report', 'milan.vcek', 'milan-debug.report', 'milan-debug.vcek', 'turin.vcek'],
  ['v4.quote', 'v4.collateral', 'v4-tail.pck-crl', 'sgx.quote'],
  ['quote.msg', 'quote.sig', 'quote.pcrs', 'ak.pub'],
];
const POLICY = {
  name: 'test',
  profile: 'measured',
  registers: { launch: { expected: '00'.repeat(48) }, pcr4: { expected: '00'.repeat(32) } },
  machines: 'any-proved',
  tpm: { requiredPcrs: [0, 4] },
  'sev-snp': {
    minimumTcb: { Milan: { bootloader: 1, tee: 0, snp: 1, microcode: 1 } },
    allowSmt: true,
    revocation: 'optional',
    maxCollateralAgeDays: 30,
  },
};

const eventLog = (name: string): Uint8Array =>
  fixture(`../../internal/attestation/eventlog/fixtures/${name}`);

function identityPolicy(tpm: object): string {
  const AK = 'tpm-ak:000b892846195c647b0883961ecdd0fc2529288a0f1f870bf2e33356c1f7693e363c';
  return JSON.stringify({
    name: 'test',
    profile: 'identity',
    registers: {},
    machines: [AK],
    tpm: { requiredPcrs: [0], ...tpm },
  });
}

/**
 * A policy that accepts every machine that runs the same software as the machine of the test quote (same PCR
 * 4).
 * @param tpm overrides of the TPM section; without them, the default decides whether the attestation key must
 * be enrolled
 */
async function anyMachine(tpm: object): Promise<string> {
  const { explanation } = await explain(QUOTE);
  return JSON.stringify({
    name: 'test',
    profile: 'measured',
    registers: { pcr4: { expected: explanation.measurements['pcr4'] } },
    machines: 'any',
    tpm: { requiredPcrs: [0, 4], eventLog: 'optional', ...tpm },
  });
}

/** A test root CA whose name differs from that of AMD’s root CA in one letter, and a CRL that it signed. */
const amd = new TestAmd('Milan');
const FORGED_CRL = issueCrl({ issuer: amd.ark, thisUpdateMs: 0, nextUpdateMs: Date.UTC(2030, 0, 1) });

async function workspace(more: Readonly<Record<string, string | Uint8Array>> = {}) {
  const files = new MemoryFiles();
  await files.makeDirectory('/w');
  for (const [index, names] of NAMES.entries()) {
    for (const name of names)
      await files.writeAtomic(`/w/${name}`, fixture(`${DIRECTORIES[index] ?? ''}${name}`));
  }
  for (const [name, content] of Object.entries(more)) await files.writeAtomic(`/w/${name}`, content);
  const host = new RecordingHost();
  const context = {
    host,
    ports: { files, commands: new FakeCommands(), clock: new FakeClock(Date.UTC(2026, 5, 1)) },
    paths: { cache: '/c', data: '/d', config: '/f', workspace: '/w' },
    passphrases: noPassphrases,
    env: {},
    signal: new AbortController().signal,
  };
  return { files, host, context };
}

type Asked = Partial<ExplainOptions> & Pick<ExplainOptions, 'evidence' | 'variant'>;

async function explain(asked: Asked, more: Readonly<Record<string, string | Uint8Array>> = {}) {
  const { context, host } = await workspace({ 'policy.yaml': JSON.stringify(POLICY), ...more });
  const none = { endorsements: [], collateral: [], policy: undefined, binding: undefined, at: undefined };
  const exit = await runAttestExplain(context, { ...none, ...asked });
  const result = host.records.find((record) => record.kind === 'result');
  return { exit, explanation: host.answered as Explanation, text: result?.text ?? '' };
}

const QUOTE = { evidence: 'quote.msg', variant: 'tpm', endorsements: ['quote.sig', 'quote.pcrs', 'ak.pub'] };
const REPORT = { evidence: 'milan.report', variant: 'sev-snp', endorsements: ['milan.vcek'] };
const TD_QUOTE = {
  evidence: 'v4.quote',
  variant: 'tdx',
  collateral: ['v4.collateral'],
  at: '2025-06-20T00:00:00Z',
};

describe('attest explain --output json', () => {
  test.each([
    { name: 'accepted', asked: QUOTE, want: { verdict: 'accepted', code: null } },
    {
      name: 'refused',
      asked: { ...QUOTE, binding: '00' },
      want: { verdict: 'refused', code: 'quote-binding' },
    },
  ])(
    'has the verdict and the checks as top-level members, and a code if refused: $name',
    async ({ asked, want }) => {
      const { context, host } = await workspace();
      const none = { endorsements: [], collateral: [], policy: undefined, binding: undefined, at: undefined };
      await runAttestExplain(context, { ...none, ...asked });
      const result = host.records.find((record) => record.kind === 'result');
      expect(result).toMatchObject({ extra: want, data: { verdict: want.verdict } });
      expect(Array.isArray(result?.extra?.['checks'])).toBe(true);
    },
  );
});

/** The attestation key of the test quote. */
const AK = keyObjectOf(parsePublic(fixture('./fixtures/ak.pub').slice(2)).key);
const pemOf = (key: KeyObject): string => key.export({ type: 'spki', format: 'pem' }).toString();
/** An evidence document of a software TPM, and the binding that it was made for. */
const recorded = JSON.parse(
  Buffer.from(fixture('../../internal/attestation/tpm/fixtures/swtpm-quote.json')).toString('utf8'),
) as { readonly binding: string; readonly evidence: string; readonly attestationKeyName: string };
const COMPOSITE = { ...REPORT, evidence: 'composite', variant: 'snp+tpm' };
/** A genuine processor report and a genuine TPM quote: the report does not certify the key of the quote. */
const composite = await new CompositeIssuer({
  variant: 'snp+tpm',
  processor: { variant: 'sev-snp', issue: async () => fixture(`${DIRECTORIES[0] ?? ''}milan.report`) },
  tpm: { variant: 'tpm', issue: async () => new Uint8Array(Buffer.from(recorded.evidence, 'base64')) },
}).issue(new Uint8Array(64), new AbortController().signal);

describe('attest explain', () => {
  test.each([
    { name: 'an SNP report', asked: REPORT, machine: 'snp-chip:d49554ec', register: 'launch' },
    { name: 'a TDX quote', asked: TD_QUOTE, machine: 'tdx-platform:0782847', register: 'rtmr0' },
    {
      name: 'a TDX quote without collateral',
      asked: { ...TD_QUOTE, collateral: [] },
      machine: 'tdx-platform:0782847',
      register: 'mrtd',
    },
    { name: 'a TPM quote', asked: { ...QUOTE, binding: 'aabbcc' }, machine: 'tpm-ak:000b', register: 'pcr4' },
  ])('accepts $name and warns about what was not checked', async ({ asked, machine, register }) => {
    const { exit, explanation, text } = await explain(asked);
    expect(exit).toBe('ok');
    expect(explanation).toMatchObject({ verdict: 'accepted', policy: null });
    expect(explanation.machineIdentity).toMatch(machine);
    expect(Object.keys(explanation.measurements)).toContain(register);
    expect(explanation.warnings).toContainEqual(expect.stringMatching(/^No policy given/));
    expect(text).toMatch(/^ACCEPTED/);
  });

  test('accepts a TPM quote of a pinned key under a policy that requires no event log', async () => {
    const policy = identityPolicy({ eventLog: 'optional' });
    const { exit, explanation } = await explain({ ...QUOTE, policy: 'own.yaml' }, { 'own.yaml': policy });
    expect(explanation).toMatchObject({
      verdict: 'accepted',
      machineIdentity: expect.stringMatching(/pinned/) as unknown,
    });
    expect(exit).toBe('ok');
  });

  test('accepts a TPM quote of a key that is not enrolled only if the policy allows it', async () => {
    const asked = { ...QUOTE, policy: 'own.yaml' };
    const refused = await explain(asked, { 'own.yaml': await anyMachine({}) });
    expect(refused.explanation).toMatchObject({ verdict: 'refused', code: 'quote-key-unknown' });
    const policy = await anyMachine({ attestationKeys: 'enrolling' });
    const { explanation } = await explain(asked, { 'own.yaml': policy });
    expect(explanation).toMatchObject({ verdict: 'accepted' });
  });

  test('does not claim that a TPM holds the key of a quote', async () => {
    const { explanation } = await explain(QUOTE);
    const signer = explanation.checks.find(({ name }) => name === 'qualified-signer');
    // The qualified name of a key depends on its parent key, which is not known here. So the check is skipped: without
    // the parent key, it could only compare the qualified name with itself.
    expect(signer).toMatchObject({ outcome: 'skipped' });
    expect(explanation.warnings.join()).toMatch(/nothing proves that a TPM holds this key/);
    expect(explanation.warnings.join()).not.toMatch(/genuine/);
  });

  test('verifies a signature with the key in a PEM file, and warns that nothing proves that a TPM holds the key', async () => {
    const endorsements = ['quote.sig', 'quote.pcrs', 'ak.pem'];
    const { explanation } = await explain({ ...QUOTE, endorsements }, { 'ak.pem': pemOf(AK) });
    expect(explanation).toMatchObject({
      verdict: 'accepted',
      machineIdentity: expect.stringMatching(/^machine-key:.* \(unproved\)$/),
    });
    expect(explanation.checks).toContainEqual(
      expect.objectContaining({ name: 'key-attributes', outcome: 'skipped' }),
    );
    expect(explanation.warnings).toContainEqual(expect.stringMatching(/nothing proves that a TPM holds it/));
  });

  test('verifies both parts of composite evidence, and says what a missing binding leaves open', async () => {
    const { explanation } = await explain(COMPOSITE, { composite });
    expect(explanation).toMatchObject({ verdict: 'accepted', variant: 'snp+tpm' });
    expect(Object.keys(explanation.measurements)).toEqual(expect.arrayContaining(['launch', 'pcr0']));
    expect(explanation.warnings).toContainEqual(expect.stringMatching(/certifies the key of the quote/));
  });

  test('warns that revocation was not checked for an SEV-SNP report without CRLs', async () => {
    const { explanation } = await explain(REPORT);
    expect(explanation.warnings.join()).toMatch(/No CRL given/);
  });

  test('prints meaning and fix of a refusal, and no control characters', async () => {
    const { explanation, text } = await explain({ ...REPORT, collateral: ['v4-tail.pck-crl'] });
    expect(explanation).toMatchObject({
      meaning: expect.stringContaining('AMD’s'),
      fix: expect.stringMatching(/./),
    });
    expect(text).toContain(
      'meaning:  A document that was passed with an SNP report was not issued by one of AMD’s CAs',
    );
    expect(text).not.toContain('?');
  });

  const tcbPolicy = (minimum: object): string =>
    JSON.stringify({ ...POLICY, 'sev-snp': { ...POLICY['sev-snp'], minimumTcb: { Milan: minimum } } });

  test('shows which machine and which TCB were refused, and which TCB the policy wants', async () => {
    const policy = tcbPolicy({ bootloader: 3, tee: 0, snp: 9, microcode: 115 });
    const { explanation, text } = await explain({ ...REPORT, policy: 'tcb.yaml' }, { 'tcb.yaml': policy });
    expect(explanation).toMatchObject({
      code: 'snp-tcb-reported',
      expected: 'at least bootloader 3, tee 0, snp 9, microcode 115',
      actual: 'bootloader 3, tee 0, snp 8, microcode 115',
      unverified: { tcb: { snp: 8 }, claims: { chipId: expect.stringMatching(/^d49554ec/) as unknown } },
      claims: {},
    });
    expect(text).toMatch(/Evidence \(not verified\)\n.*Milan\n(.*\n)*  chipId +d49554ec[0-9a-f]{120}\n/);
  });

  test.each([
    {
      name: 'an SNP report without its certificate',
      asked: { ...REPORT, endorsements: [] },
      shows: 'chipId',
    },
    { name: 'a TDX quote', asked: { ...TD_QUOTE, at: '2026-01-01' }, shows: 'ppid' },
    { name: 'an incomplete TPM quote', asked: { ...QUOTE, endorsements: [] }, shows: 'pcrs' },
    { name: 'a TPM quote', asked: { ...QUOTE, binding: '00' }, shows: 'attestationKey' },
    {
      name: 'composite evidence',
      asked: { ...COMPOSITE, binding: recorded.binding },
      shows: 'tpm.attestationKey',
    },
  ])('shows the fields of refused evidence: $name', async ({ asked, shows }) => {
    const { explanation } = await explain(asked, { composite });
    expect(explanation.verdict).toBe('refused');
    expect(Object.keys(explanation.unverified?.claims ?? {})).toContain(shows);
  });

  test('shows no fields of evidence that cannot be decoded', async () => {
    const { explanation } = await explain({ ...REPORT, evidence: 'v4.quote' });
    expect(explanation).toMatchObject({ code: 'snp-report-size', evidence: 'v4.quote' });
    expect(explanation.unverified).toBeUndefined();
  });

  test('names both dates of an expired CRL', async () => {
    const { explanation, text } = await explain({ ...TD_QUOTE, at: '2026-01-01' });
    const dates = { expected: 'until 2025-07-19T10:00:35.000Z', actual: '2026-01-01T00:00:00.000Z' };
    expect(explanation).toMatchObject({ code: 'x509-crl-expired', ...dates });
    expect(explanation.checks.at(-1)).toMatchObject({ name: 'revocation', outcome: 'fail' });
    expect(text).toContain(`  expected: ${dates.expected}\n  found:    ${dates.actual}\n`);
  });

  const broken = eventLog('arch-linux-workstation.bin');
  test.each([
    { name: 'a certificate', asked: { ...REPORT, endorsements: ['bad'] }, bad: Uint8Array.of(0x30, 1) },
    { name: 'collateral', asked: { ...TD_QUOTE, collateral: ['bad'] }, bad: 'text' },
    { name: 'a CRL of another issuer', asked: { ...REPORT, collateral: ['bad'] }, bad: FORGED_CRL },
    {
      name: 'the event log of a TPM quote',
      asked: { ...QUOTE, endorsements: [...QUOTE.endorsements, 'bad'] },
      bad: broken.slice(0, 500),
    },
    {
      name: 'the event log of a TDX quote',
      asked: { ...TD_QUOTE, endorsements: ['bad'] },
      bad: eventLog('cos-113-tdx.ccel').slice(0, 500),
    },
    {
      name: 'the signature of a TPM quote',
      asked: { ...QUOTE, endorsements: ['bad', 'quote.pcrs', 'ak.pub'] },
      bad: fixture('./fixtures/quote.sig').slice(0, 20),
    },
    {
      name: 'an unknown file beside a TPM quote',
      asked: { ...QUOTE, endorsements: [...QUOTE.endorsements, 'bad'] },
      bad: 'text',
    },
    {
      name: 'the PCR values of a TPM quote',
      asked: { ...QUOTE, endorsements: ['quote.sig', 'bad', 'ak.pub'] },
      bad: fixture('./fixtures/quote.pcrs').with(300, 1),
    },
  ])('names the malformed file: $name', async ({ asked, bad }) => {
    const { explanation } = await explain(asked, { bad });
    expect(explanation.verdict).toBe('refused');
    expect(explanation.reason).toMatch(/^(reading )?bad: /);
  });

  test('names the file of a malformed policy', async () => {
    const policy = JSON.stringify({ ...POLICY, profile: 'none' });
    await expect(explain({ ...REPORT, policy: 'bad.yaml' }, { 'bad.yaml': policy })).rejects.toMatchObject({
      code: 'policy-malformed',
      message: 'reading bad.yaml',
    });
  });

  const refused: readonly {
    name: string;
    asked: Asked;
    more?: Record<string, string | Uint8Array>;
    want: string;
  }[] = [
    {
      name: 'a report that allows debugging',
      asked: {
        evidence: 'milan-debug.report',
        variant: 'sev-snp',
        endorsements: ['milan-debug.vcek'],
        policy: 'policy.yaml',
      },
      want: 'snp-debug',
    },
    {
      name: 'a report of a machine that runs other software',
      asked: { ...REPORT, policy: 'policy.yaml' },
      want: 'attestation-register-mismatch',
    },
    {
      name: 'a report that was made for another session',
      asked: { ...REPORT, binding: '00'.repeat(64) },
      want: 'snp-binding',
    },
    {
      name: 'a report without its certificate',
      asked: { ...REPORT, endorsements: [] },
      want: 'snp-certificate-missing',
    },
    {
      name: 'a report with the certificate of another chip',
      asked: { ...REPORT, endorsements: ['turin.vcek'] },
      want: 'snp-chip-mismatch',
    },
    {
      name: 'a report with a broken certificate',
      asked: { ...REPORT, endorsements: ['bad'] },
      more: { bad: Uint8Array.of(0x30, 1) },
      want: 'collateral-malformed',
    },
    {
      name: 'a report after its certificate expired',
      asked: { ...REPORT, at: '2040-01-01T00:00:00Z' },
      want: 'x509-expired',
    },
    {
      name: 'a TDX quote after its collateral expired',
      asked: { ...TD_QUOTE, at: '2026-01-01T00:00:00Z' },
      want: 'x509-crl-expired',
    },
    {
      name: 'a quote of an SGX enclave',
      asked: { evidence: 'sgx.quote', variant: 'tdx' },
      want: 'tdx-quote-version',
    },
    {
      name: 'a TDX quote as an SNP report',
      asked: { evidence: 'v4.quote', variant: 'sev-snp' },
      want: 'snp-report-size',
    },
    {
      name: 'a TDX quote under a policy without a TDX section',
      asked: { ...TD_QUOTE, policy: 'policy.yaml' },
      want: 'attestation-policy-missing',
    },
    {
      name: 'a TPM quote of a machine that runs other software',
      asked: { ...QUOTE, policy: 'policy.yaml' },
      want: 'attestation-register-mismatch',
    },
    {
      name: 'a TPM quote that was made for another session',
      asked: { ...QUOTE, binding: 'aabb' },
      want: 'quote-binding',
    },
    {
      name: 'a TPM quote with a damaged event log',
      asked: { ...QUOTE, endorsements: [...QUOTE.endorsements, 'log'] },
      more: { log: eventLog('arch-linux-workstation.bin').with(40, 0) },
      want: 'attest-endorsement-unknown',
    },
    {
      name: 'a TPM quote with a malformed event log',
      asked: { ...QUOTE, endorsements: [...QUOTE.endorsements, 'log'] },
      more: { log: eventLog('debian-10.bin') },
      want: 'attest-endorsement-unknown',
    },
    {
      name: 'a TPM quote with the event log of another machine',
      asked: { ...QUOTE, endorsements: [...QUOTE.endorsements, 'log'] },
      more: { log: eventLog('arch-linux-workstation.bin') },
      want: 'eventlog-replay',
    },
    {
      name: 'a TPM quote if an endorsement names another attestation key',
      asked: { ...QUOTE, endorsements: [...QUOTE.endorsements, 'other.pub'] },
      more: { 'other.pub': fixture('./fixtures/ak.pub').with(80, 0) },
      want: 'attest-endorsement-unknown',
    },
    {
      name: 'a TPM quote without an event log under a policy that requires one',
      asked: { ...QUOTE, policy: 'log.yaml' },
      more: { 'log.yaml': identityPolicy({}) },
      want: 'quote-eventlog-missing',
    },
    {
      name: 'a TPM quote under a policy for other hardware',
      asked: { ...QUOTE, policy: 'snp.yaml' },
      more: { 'snp.yaml': JSON.stringify({ ...POLICY, tpm: undefined }) },
      want: 'attestation-policy-missing',
    },
    {
      name: 'a report with a CRL that AMD did not issue',
      asked: { ...REPORT, collateral: ['v4-tail.pck-crl'] },
      want: 'attest-collateral-unknown',
    },
    {
      name: 'a report with a CRL whose issuer was altered by one byte',
      asked: { ...REPORT, collateral: ['forged.crl'] },
      more: { 'forged.crl': FORGED_CRL },
      want: 'attest-collateral-unknown',
    },
    {
      name: 'evidence above the size limit',
      asked: { ...REPORT, evidence: 'huge' },
      more: { huge: new Uint8Array((8 << 20) + 1) },
      want: 'attestation-evidence-too-large',
    },
    {
      name: 'a TDX quote with the event log of another machine',
      asked: { ...TD_QUOTE, endorsements: ['log'] },
      more: { log: eventLog('cos-113-tdx.ccel') },
      want: 'tdx-event-log',
    },
    {
      name: 'a TDX quote with a truncated event log',
      asked: { ...TD_QUOTE, endorsements: ['log'] },
      more: { log: eventLog('cos-113-tdx.ccel').slice(0, 500) },
      want: 'eventlog-truncated',
    },
    {
      name: 'a TDX quote with an event log that was altered to hide it',
      asked: { ...TD_QUOTE, endorsements: ['log'] },
      more: { log: eventLog('cos-113-tdx.ccel').with(40, 0) },
      want: 'collateral-malformed',
    },
    {
      name: 'a TDX quote with two event logs',
      asked: { ...TD_QUOTE, endorsements: ['log', 'log'] },
      more: { log: eventLog('cos-113-tdx.ccel') },
      want: 'attest-endorsement-unknown',
    },
    {
      name: 'a TPM quote that was not signed with the key in the PEM file',
      asked: { ...QUOTE, endorsements: ['quote.sig', 'quote.pcrs', 'other.pem'] },
      more: { 'other.pem': pemOf(createPublicKey(generateKeyPem().reveal())) },
      want: 'quote-signature',
    },
    {
      name: 'a TPM quote with its key in a PEM file under a policy, because nothing proves that a TPM holds this key',
      asked: { ...QUOTE, endorsements: ['quote.sig', 'quote.pcrs', 'ak.pem'], policy: 'log.yaml' },
      more: { 'ak.pem': pemOf(AK), 'log.yaml': identityPolicy({ eventLog: 'optional' }) },
      want: 'attest-evidence-incomplete',
    },
    {
      name: 'composite evidence whose processor report does not certify the key of its quote',
      asked: { ...COMPOSITE, binding: recorded.binding },
      more: { composite },
      want: 'snp-binding',
    },
    {
      name: 'composite evidence without a binding under a policy, because only the binding shows that the report certifies the key',
      asked: { ...COMPOSITE, policy: 'any.yaml' },
      more: {
        composite,
        'any.yaml': JSON.stringify({
          ...POLICY,
          profile: 'identity',
          registers: {},
          tpm: { requiredPcrs: [0], eventLog: 'optional', attestationKeys: 'enrolling' },
        }),
      },
      want: 'quote-key-unknown',
    },
    {
      name: 'composite evidence without its quote',
      asked: COMPOSITE,
      more: { composite: composite.with(5, 1) },
      want: 'attestation-evidence-malformed',
    },
    {
      name: 'a TPM quote without PCR values',
      asked: { ...QUOTE, endorsements: ['quote.sig', 'ak.pub'] },
      want: 'attest-evidence-incomplete',
    },
  ];
  test.each(refused)('refuses $name', async ({ asked, more, want }) => {
    const { exit, explanation, text } = await explain(asked, more).catch((error: unknown) => ({
      exit: (error as { code: string }).code,
      explanation: undefined,
      text: '',
    }));
    // the operator forgot the policy, so there is no verdict
    if (want === 'attestation-policy-missing') return expect(exit).toBe(want);
    expect(explanation).toMatchObject({ verdict: 'refused', code: want });
    expect(exit).toBe('refused');
    expect(text).toMatch(/^REFUSED/);
  });

  test('refuses a raw TPM quote with any byte of it changed', async () => {
    for (const name of ['quote.msg', 'quote.sig', 'ak.pub']) {
      const bytes = fixture(`./fixtures/${name}`);
      for (let at = 0; at < bytes.length; at += 3) {
        const changed = Uint8Array.from(bytes).with(at, (bytes[at] ?? 0) ^ 0x10);
        const { exit } = await explain({ ...QUOTE, binding: 'aabbcc' }, { [name]: changed });
        if (exit !== 'refused' && name !== 'ak.pub') throw new Error(`accepted: ${name}, byte ${at}`);
      }
    }
  });

  test.each([
    { name: 'an unknown variant', asked: { ...REPORT, variant: 'dummy' }, want: 'attest-option' },
    { name: 'a binding that is not hex', asked: { ...REPORT, binding: 'xyz' }, want: 'attest-option' },
    { name: 'an invalid time', asked: { ...REPORT, at: 'yesterday' }, want: 'attest-option' },
    {
      name: 'a bare number as time, which could be a year or seconds',
      asked: { ...REPORT, at: '2020' },
      want: 'attest-option',
    },
    { name: 'a day that does not exist', asked: { ...REPORT, at: '2026-02-31' }, want: 'attest-option' },
    {
      name: 'TPM evidence with collateral, which does not apply to it',
      asked: { ...QUOTE, collateral: ['v4.collateral'] },
      want: 'attest-option',
    },
    { name: 'a leap second', asked: { ...REPORT, at: '2026-06-30T23:59:60Z' }, want: 'attest-option' },
    {
      name: 'an endorsement above the size limit',
      asked: { ...REPORT, endorsements: ['huge'] },
      want: 'attest-file',
    },
    { name: 'a missing file', asked: { ...REPORT, evidence: 'nothing' }, want: 'attest-file' },
    {
      name: 'a file that is not a policy',
      asked: { ...REPORT, policy: 'milan.report' },
      want: 'policy-malformed',
    },
  ])('gives no verdict for $name', async ({ asked, want }) => {
    const huge = new Uint8Array((8 << 20) + 1);
    await expect(explain(asked, { huge })).rejects.toMatchObject({ code: want, exit: 'usage' });
  });
});

describe('attest explain of an evidence document', () => {
  const document = new Uint8Array(Buffer.from(recorded.evidence, 'base64'));
  const asked = { evidence: 'document', variant: 'tpm' };
  const more = { document, other: encodeSnpEvidence({ report: new Uint8Array(), certificates: [] }) };

  test('checks the binding even if no policy is given', async () => {
    const bound = await explain({ ...asked, binding: recorded.binding }, more);
    expect(bound.explanation).toMatchObject({ verdict: 'accepted', policy: null });
    expect(bound.explanation.checks).toContainEqual(
      expect.objectContaining({ name: 'binding', outcome: 'pass' }),
    );
    const replayed = await explain({ ...asked, binding: '00'.repeat(64) }, more);
    expect(replayed.explanation).toMatchObject({ verdict: 'refused', code: 'quote-binding' });
    await expect(explain({ ...asked, binding: '00' }, more)).rejects.toMatchObject({ code: 'attest-option' });
  });

  test('warns about a possible replay if no binding is given', async () => {
    const { explanation } = await explain(asked, more);
    expect(explanation.warnings).toContainEqual(expect.stringMatching(/may be a replay/));
  });

  test('requires an enrolled key if a policy is given', async () => {
    const { explanation } = await explain(
      { ...asked, binding: recorded.binding, policy: 'policy.yaml' },
      more,
    );
    expect(explanation).toMatchObject({ verdict: 'refused', code: 'quote-key-unknown' });
  });

  test('refuses an evidence document of another variant than the given one', async () => {
    const { explanation } = await explain({ ...asked, evidence: 'other' }, more);
    expect(explanation).toMatchObject({ verdict: 'refused', code: 'quote-document-malformed' });
  });
});

describe('attest collateral', () => {
  test('names the malformed file', async () => {
    const { context } = await workspace({ bad: 'text' });
    await expect(
      runAttestCollateral(context, { files: ['v4.collateral', 'bad'], out: undefined }),
    ).rejects.toMatchObject({
      code: 'collateral-malformed',
      message: 'reading bad',
    });
  });

  test('writes one bundle, shows ages, and exits unhealthy if a document has expired', async () => {
    const { context, files, host } = await workspace();
    const exit = await runAttestCollateral(context, {
      files: ['v4.collateral', 'v4-tail.pck-crl'],
      out: 'bundle.json',
    });
    expect(exit).toBe('unhealthy');
    const text = Buffer.from((await files.read('/w/bundle.json', 1 << 20)) ?? []).toString('utf8');
    expect(parseBundle(text).items.length).toBe((host.answered as { documents: unknown[] }).documents.length);
    expect(host.codes).toContain('attest-collateral-written');
  });

  test('replaces an earlier bundle, and no other file', async () => {
    const { context, files } = await workspace({ other: 'text' });
    const write = (file: string, out: string) => runAttestCollateral(context, { files: [file], out });
    await write('v4.collateral', 'bundle.json');
    const before = await files.read('/w/bundle.json', 1 << 20);
    await write('v4-tail.pck-crl', 'bundle.json');
    expect(await files.read('/w/bundle.json', 1 << 20)).not.toEqual(before);
    await expect(write('v4.collateral', 'other')).rejects.toMatchObject({ code: 'app-file-exists' });
  });
});
