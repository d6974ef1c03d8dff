import { describe, expect, test } from '@jest/globals';
import { generateKeyPairSync } from 'node:crypto';
import { FakeClock, FakeTsm } from '../../testing/index.ts';
import { rawFromOwnerKey } from '../ownerkey/index.ts';
import { VARIANTS, type Issuer, type Validator, type Variant } from '../verdict.ts';
import {
  createIssuer,
  createValidators,
  parsePolicy,
  parseVariants,
  PolicyError,
  PolicyStore,
  standardValidators,
  type ValidatorDependencies,
} from './index.ts';

const PCR = 'ab'.repeat(32);
const LAUNCH = 'cd'.repeat(48);
const minimum = { bootloader: 3, tee: 0, snp: 8, microcode: 115 };
const tpm = { requiredPcrs: [0, 4] };
const snp = { minimumTcb: { Milan: minimum }, allowSmt: true, maxCollateralAgeDays: 30 };
const tdx = { minimumEvaluationNumber: 17, maxCollateralAgeDays: 30 };
const written = {
  name: 'release-1',
  profile: 'measured',
  registers: {
    4: { expected: PCR },
    launch: { expected: [LAUNCH, 'ef'.repeat(48)] },
    pcr7: { expected: PCR, warnOnly: true },
  },
  machines: ['tpm-ek:00ff'],
  tpm,
  'sev-snp': snp,
  tdx,
};

describe('parsePolicy()', () => {
  test('accepts a cloud provider id in the form that `attest explain` prints', () => {
    const { machines } = parsePolicy({ ...written, machines: ['snp-csp:CN=cloud, O=Example Inc.'] });
    expect(machines).toEqual(new Set(['snp-csp:CN=cloud, O=Example Inc.']));
    for (const name of ['snp-csp:', 'snp-csp:a\nb', 'tpm-ek:CN=x'])
      expect(() => parsePolicy({ ...written, machines: [name] })).toThrow('kind:id expected');
  });

  test('accepts registers by index or by name and with several values, and applies strict defaults', () => {
    const policy = parsePolicy(written);
    expect([...policy.registers]).toEqual([
      ['pcr4', { accepted: [PCR], warnOnly: false }],
      ['launch', { accepted: [LAUNCH, 'ef'.repeat(48)], warnOnly: false }],
      ['pcr7', { accepted: [PCR], warnOnly: true }],
    ]);
    expect(policy.machines).toEqual(new Set(['tpm-ek:00ff']));
    expect(policy.tpm).toEqual({
      attestationKeys: 'enrolled',
      requiredPcrs: [0, 4],
      requireSafeClock: false,
      eventLog: 'required',
      loggedPcrs: [0, 1, 2, 3, 4, 5, 6, 7],
    });
    expect(policy.snp).toMatchObject({
      allowDebug: false,
      allowMigrationAgent: false,
      maxVmpl: 0,
      cspIds: [],
      revocation: 'required',
      maxCollateralAgeMs: 30 * 86_400_000,
    });
    expect(policy.snp?.minimumTcb.get('Milan')).toEqual(minimum);
    expect(policy.tdx).toMatchObject({
      tcbStatuses: ['UpToDate'],
      allowDebug: false,
      allowMigration: false,
      requireSeptVeDisable: true,
      mrConfigId: 'zero',
    });
  });

  test('returns a version made of the name and a content hash that ignores the order of keys', () => {
    const { version } = parsePolicy(written);
    expect(version).toMatch(/^release-1@[0-9a-f]{12}$/);
    expect(parsePolicy(Object.fromEntries(Object.entries(written).reverse())).version).toBe(version);
    expect(parsePolicy({ ...written, machines: 'any-proved' }).version).not.toBe(version);
  });

  const refused: readonly { name: string; given: unknown; want: string; path?: string }[] = [
    { name: 'a policy that is not an object', given: 'measured', want: 'policy-malformed' },
    { name: 'a policy with an unknown key', given: { ...written, insecure: true }, want: 'policy-malformed' },
    {
      name: 'a policy with an unknown key in a section',
      given: { ...written, tdx: { ...tdx, skip: true } },
      want: 'policy-malformed',
      path: 'tdx',
    },
    {
      name: 'a policy without profile',
      given: { ...written, profile: undefined },
      want: 'policy-malformed',
      path: 'profile',
    },
    {
      name: 'a policy without machines',
      given: { ...written, machines: undefined },
      want: 'policy-malformed',
      path: 'machines',
    },
    {
      name: 'a policy with an empty list of machines',
      given: { ...written, machines: [] },
      want: 'policy-malformed',
    },
    {
      name: 'a policy with a machine id without its kind',
      given: { ...written, machines: ['00ff'] },
      want: 'policy-malformed',
    },
    {
      name: 'a policy with an empty list of register values',
      given: { ...written, registers: { 4: { expected: [] } } },
      want: 'policy-malformed',
    },
    {
      name: 'a policy with a register value of the wrong length',
      given: { ...written, registers: { 4: { expected: LAUNCH } } },
      want: 'policy-malformed',
    },
    {
      name: 'a policy with a truncated register value',
      given: { ...written, registers: { 4: { expected: 'ab' } } },
      want: 'policy-malformed',
    },
    {
      name: 'a policy with upper-case hex',
      given: { ...written, registers: { 4: { expected: PCR.toUpperCase() } } },
      want: 'policy-malformed',
    },
    {
      name: 'a policy with an unknown register',
      given: { ...written, registers: { rtmr4: { expected: LAUNCH } } },
      want: 'policy-malformed',
    },
    {
      name: 'a policy with one register under its index and its name',
      given: { ...written, registers: { 4: { expected: PCR }, pcr4: { expected: '00'.repeat(32) } } },
      want: 'policy-malformed',
      path: 'registers.pcr4',
    },
    {
      name: 'a policy with PCR 24',
      given: { ...written, registers: { 24: { expected: PCR } } },
      want: 'policy-malformed',
    },
    {
      name: 'a policy with a reference value for a PCR that any software can reset',
      given: { ...written, registers: { 16: { expected: PCR } } },
      want: 'policy-malformed',
      path: 'registers.pcr16',
    },
    {
      name: 'a policy whose required PCRs can all be reset by any software',
      given: { ...written, tpm: { requiredPcrs: [16, 23] } },
      want: 'policy-malformed',
      path: 'tpm.requiredPcrs',
    },
    {
      name: 'a policy with an explicit warnOnly: false',
      given: { ...written, registers: { 4: { expected: PCR, warnOnly: false } } },
      want: 'policy-malformed',
    },
    {
      name: 'a policy that accepts the TCB status Revoked',
      given: { ...written, tdx: { ...tdx, tcbStatuses: ['Revoked'] } },
      want: 'policy-malformed',
    },
    {
      name: 'a policy that accepts no TCB status',
      given: { ...written, tdx: { ...tdx, tcbStatuses: [] } },
      want: 'policy-malformed',
    },
    {
      name: 'a policy with no processor product',
      given: { ...written, 'sev-snp': { ...snp, minimumTcb: {} } },
      want: 'policy-malformed',
    },
    {
      name: 'a policy with a product whose root is unknown',
      given: { ...written, 'sev-snp': { ...snp, minimumTcb: { Rome: minimum } } },
      want: 'policy-malformed',
    },
    {
      name: 'a policy with Turin but without its FMC minimum',
      given: { ...written, 'sev-snp': { ...snp, minimumTcb: { Turin: minimum } } },
      want: 'policy-malformed',
    },
    {
      name: 'a policy without a maximum collateral age',
      given: { ...written, tdx: { minimumEvaluationNumber: 1 } },
      want: 'policy-malformed',
    },
    {
      name: 'a policy without required PCRs',
      given: { ...written, tpm: { requiredPcrs: [] } },
      want: 'policy-malformed',
    },
    {
      name: 'a measured policy without registers',
      given: { ...written, registers: {} },
      want: 'policy-proves-nothing',
    },
    {
      name: 'a policy that only warns about mismatches',
      given: { ...written, registers: { 4: { expected: PCR, warnOnly: true } } },
      want: 'policy-proves-nothing',
    },
    {
      name: 'an identity policy that accepts any machine',
      given: { ...written, profile: 'identity', machines: 'any' },
      want: 'policy-proves-nothing',
    },
  ];
  test.each(refused)('refuses $name', ({ given, want, path }) => {
    const details = path === undefined ? expect.anything() : { path };
    const expected = want === 'policy-malformed' ? { code: want, details } : { code: want };
    expect(() => parsePolicy(given)).toThrow(expect.objectContaining(expected));
  });

  test('accepts an identity policy without registers', () => {
    expect(parsePolicy({ ...written, profile: 'identity', registers: {} }).registers.size).toBe(0);
  });
});

describe('PolicyStore', () => {
  const storeOf = (variants: readonly Variant[] = ['tpm']): PolicyStore =>
    new PolicyStore({ variants, input: written });

  test('replaces the active policy as a whole when the new one is valid', () => {
    const store = storeOf();
    const before = store.current.version;
    const change = store.replace({ ...written, name: 'release-2' });
    expect(change).toEqual({ kind: 'replaced', version: store.current.version, before });
    expect(store.current.version).toMatch(/^release-2@/);
  });

  test('keeps the active policy when the new one is invalid, and reports why until a valid one follows', () => {
    const store = storeOf();
    const { current } = store;
    expect(store.replace({ ...written, registers: {} })).toMatchObject({
      kind: 'kept',
      version: current.version,
      problem: { code: 'policy-proves-nothing' },
    });
    expect(store.current).toBe(current);
    expect(store.problem).toMatchObject({ code: 'policy-proves-nothing' });
    expect(store.replace(written)).toEqual({ kind: 'unchanged', version: current.version });
    expect(store.problem).toBeUndefined();
  });

  test('keeps the active policy when the new one has no section for a variant in use', () => {
    const store = storeOf(['snp+tpm']);
    const { 'sev-snp': _, ...without } = written;
    expect(store.replace(without)).toMatchObject({
      kind: 'kept',
      problem: { code: 'policy-variant-unknown' },
    });
  });

  test('refuses to start with an invalid policy', () => {
    expect(() => new PolicyStore({ variants: ['tpm'], input: {} })).toThrow(PolicyError);
    const { tdx: _, ...without } = written;
    expect(() => new PolicyStore({ variants: ['tdx'], input: without })).toThrow(PolicyError);
  });
});

describe('attestation variants', () => {
  test.each([
    { name: 'an empty list of variants', given: [] },
    { name: 'an unknown variant', given: ['dummy'] },
    { name: 'a variant in other spelling', given: ['TPM'] },
    { name: 'a duplicate variant', given: ['tpm', 'tdx', 'tpm'] },
  ])('parseVariants() refuses $name', ({ given }) => {
    expect(() => parseVariants(given)).toThrow(expect.objectContaining({ code: 'policy-variant-unknown' }));
  });

  test('createValidators() creates only the validators in use, in the given order', () => {
    const made: Variant[] = [];
    const stub = (variant: Variant) => (): Validator => {
      made.push(variant);
      return { variant, validate: () => Promise.reject(new Error('not asked')) };
    };
    const makers: ValidatorDependencies = {
      tpm: stub('tpm'),
      'sev-snp': stub('sev-snp'),
      tdx: stub('tdx'),
      'snp+tpm': stub('snp+tpm'),
      'tdx+tpm': stub('tdx+tpm'),
      'owner-key': stub('owner-key'),
      'machine-key': stub('machine-key'),
    };
    const validators = createValidators(parseVariants(['tdx', 'owner-key']), makers);
    expect(validators.map(({ variant }) => variant)).toEqual(['tdx', 'owner-key']);
    expect(made).toEqual(['tdx', 'owner-key']);
    const swapped = { ...makers, tpm: stub('tdx') };
    expect(() => createValidators(['tpm'], swapped)).toThrow(PolicyError);
  });

  test('standardValidators() creates a validator for every variant', () => {
    const makers = standardValidators({
      ownerKeys: [rawFromOwnerKey(generateKeyPairSync('ed25519').privateKey)],
    });
    expect(createValidators(parseVariants(VARIANTS), makers).map(({ variant }) => variant)).toEqual(VARIANTS);
  });

  test('createIssuer() creates only the issuer of the variant that the machine shows', () => {
    const asked: Variant[] = [];
    const stub = (variant: Variant) => (): Issuer => {
      asked.push(variant);
      return { variant, issue: () => Promise.resolve(new Uint8Array()) };
    };
    const tsm = {
      files: new FakeTsm({ provider: undefined, makeReport: () => ({ outblob: new Uint8Array() }) }),
      clock: new FakeClock(),
    };
    const machine = { tsm, tpm: stub('tpm'), ownerKey: stub('owner-key'), machineKey: stub('machine-key') };
    expect(VARIANTS.map((variant) => createIssuer(variant, machine).variant)).toEqual(VARIANTS);
    expect(asked).toEqual(['tpm', 'tpm', 'tpm', 'owner-key', 'machine-key']);
  });
});
