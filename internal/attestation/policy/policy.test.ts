import { describe, expect, test } from '@jest/globals';
import { generateKeyPairSync } from 'node:crypto';
import { FakeClock, FakeTsm } from '../../testing/index.ts';
import { rawFromOwnerKey } from '../ownerkey/index.ts';
import type { Issuer, Validator, Variant } from '../verdict.ts';
import {
  createIssuer,
  createValidators,
  parsePolicy,
  parseVariants,
  PolicyError,
  PolicyStore,
  standardValidators,
  VARIANTS,
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

describe('a policy', () => {
  test('names a provider of chips as `attest explain` prints it', () => {
    const { machines } = parsePolicy({ ...written, machines: ['snp-csp:CN=cloud, O=Example Inc.'] });
    expect(machines).toEqual(new Set(['snp-csp:CN=cloud, O=Example Inc.']));
    for (const name of ['snp-csp:', 'snp-csp:a\nb', 'tpm-ek:CN=x'])
      expect(() => parsePolicy({ ...written, machines: [name] })).toThrow('kind:id expected');
  });

  test('is read with registers by index or name, several values, and the strict defaults', () => {
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

  test('has a version of its name and its content, whatever the order of its keys', () => {
    const { version } = parsePolicy(written);
    expect(version).toMatch(/^release-1@[0-9a-f]{12}$/);
    expect(parsePolicy(Object.fromEntries(Object.entries(written).reverse())).version).toBe(version);
    expect(parsePolicy({ ...written, machines: 'any-proved' }).version).not.toBe(version);
  });

  const refused: readonly { name: string; given: unknown; want: string; path?: string }[] = [
    { name: 'that is no object', given: 'measured', want: 'policy-malformed' },
    { name: 'with an unknown key', given: { ...written, insecure: true }, want: 'policy-malformed' },
    {
      name: 'with an unknown key in a section',
      given: { ...written, tdx: { ...tdx, skip: true } },
      want: 'policy-malformed',
      path: 'tdx',
    },
    {
      name: 'without profile',
      given: { ...written, profile: undefined },
      want: 'policy-malformed',
      path: 'profile',
    },
    {
      name: 'without machines',
      given: { ...written, machines: undefined },
      want: 'policy-malformed',
      path: 'machines',
    },
    { name: 'with an empty list of machines', given: { ...written, machines: [] }, want: 'policy-malformed' },
    {
      name: 'with a machine of no kind',
      given: { ...written, machines: ['00ff'] },
      want: 'policy-malformed',
    },
    {
      name: 'with an empty list of values',
      given: { ...written, registers: { 4: { expected: [] } } },
      want: 'policy-malformed',
    },
    {
      name: 'with a value of another length',
      given: { ...written, registers: { 4: { expected: LAUNCH } } },
      want: 'policy-malformed',
    },
    {
      name: 'with a short value',
      given: { ...written, registers: { 4: { expected: 'ab' } } },
      want: 'policy-malformed',
    },
    {
      name: 'with upper-case hex',
      given: { ...written, registers: { 4: { expected: PCR.toUpperCase() } } },
      want: 'policy-malformed',
    },
    {
      name: 'with an unknown register',
      given: { ...written, registers: { rtmr4: { expected: LAUNCH } } },
      want: 'policy-malformed',
    },
    {
      name: 'with one register under its index and its name',
      given: { ...written, registers: { 4: { expected: PCR }, pcr4: { expected: '00'.repeat(32) } } },
      want: 'policy-malformed',
      path: 'registers.pcr4',
    },
    {
      name: 'with PCR 24',
      given: { ...written, registers: { 24: { expected: PCR } } },
      want: 'policy-malformed',
    },
    {
      name: 'with a reference value for a PCR that any software resets',
      given: { ...written, registers: { 16: { expected: PCR } } },
      want: 'policy-malformed',
      path: 'registers.pcr16',
    },
    {
      name: 'with required PCRs that any software resets only',
      given: { ...written, tpm: { requiredPcrs: [16, 23] } },
      want: 'policy-malformed',
      path: 'tpm.requiredPcrs',
    },
    {
      name: 'with warnOnly: false written as if it were a choice',
      given: { ...written, registers: { 4: { expected: PCR, warnOnly: false } } },
      want: 'policy-malformed',
    },
    {
      name: 'that accepts a revoked TCB',
      given: { ...written, tdx: { ...tdx, tcbStatuses: ['Revoked'] } },
      want: 'policy-malformed',
    },
    {
      name: 'that accepts no TCB',
      given: { ...written, tdx: { ...tdx, tcbStatuses: [] } },
      want: 'policy-malformed',
    },
    {
      name: 'without any product',
      given: { ...written, 'sev-snp': { ...snp, minimumTcb: {} } },
      want: 'policy-malformed',
    },
    {
      name: 'with a product of no root',
      given: { ...written, 'sev-snp': { ...snp, minimumTcb: { Rome: minimum } } },
      want: 'policy-malformed',
    },
    {
      name: 'with Turin and no FMC',
      given: { ...written, 'sev-snp': { ...snp, minimumTcb: { Turin: minimum } } },
      want: 'policy-malformed',
    },
    {
      name: 'without an age for collateral',
      given: { ...written, tdx: { minimumEvaluationNumber: 1 } },
      want: 'policy-malformed',
    },
    {
      name: 'without required PCRs',
      given: { ...written, tpm: { requiredPcrs: [] } },
      want: 'policy-malformed',
    },
    { name: 'that measures nothing', given: { ...written, registers: {} }, want: 'policy-proves-nothing' },
    {
      name: 'that only warns',
      given: { ...written, registers: { 4: { expected: PCR, warnOnly: true } } },
      want: 'policy-proves-nothing',
    },
    {
      name: 'of identities that takes any machine',
      given: { ...written, profile: 'identity', machines: 'any' },
      want: 'policy-proves-nothing',
    },
  ];
  test.each(refused)('$name is refused', ({ given, want, path }) => {
    const details = path === undefined ? expect.anything() : { path };
    const expected = want === 'policy-malformed' ? { code: want, details } : { code: want };
    expect(() => parsePolicy(given)).toThrow(expect.objectContaining(expected));
  });

  test('of identities needs no register', () => {
    expect(parsePolicy({ ...written, profile: 'identity', registers: {} }).registers.size).toBe(0);
  });
});

describe('the active policy', () => {
  const storeOf = (variants: readonly Variant[] = ['tpm']): PolicyStore =>
    new PolicyStore({ variants, input: written });

  test('is replaced by a valid one as a whole', () => {
    const store = storeOf();
    const before = store.current.version;
    const change = store.replace({ ...written, name: 'release-2' });
    expect(change).toEqual({ kind: 'replaced', version: store.current.version, before });
    expect(store.current.version).toMatch(/^release-2@/);
  });

  test('stays active when the new one is invalid, and reports why until a valid one follows', () => {
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

  test('stays active when the new one has no section for a variant in use', () => {
    const store = storeOf(['snp+tpm']);
    const { 'sev-snp': _, ...without } = written;
    expect(store.replace(without)).toMatchObject({
      kind: 'kept',
      problem: { code: 'policy-variant-unknown' },
    });
  });

  test('is refused at start if it is invalid', () => {
    expect(() => new PolicyStore({ variants: ['tpm'], input: {} })).toThrow(PolicyError);
    const { tdx: _, ...without } = written;
    expect(() => new PolicyStore({ variants: ['tdx'], input: without })).toThrow(PolicyError);
  });
});

describe('variants', () => {
  test.each([
    { name: 'none', given: [] },
    { name: 'an unknown one', given: ['dummy'] },
    { name: 'another spelling', given: ['TPM'] },
    { name: 'one twice', given: ['tpm', 'tdx', 'tpm'] },
  ])('with $name refuse to start', ({ given }) => {
    expect(() => parseVariants(given)).toThrow(expect.objectContaining({ code: 'policy-variant-unknown' }));
  });

  test('make their validators in order, and only those in use', () => {
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

  test('of a release are all there, each under its own name', () => {
    const makers = standardValidators({
      ownerKeys: [rawFromOwnerKey(generateKeyPairSync('ed25519').privateKey)],
    });
    expect(createValidators(parseVariants(VARIANTS), makers).map(({ variant }) => variant)).toEqual(VARIANTS);
  });

  test('make the issuer that the machine has, and no other', () => {
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
