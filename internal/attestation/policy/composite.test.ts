import { describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import { AttestationError } from '../errors.ts';
import type { Policy } from '../rules.ts';
import { encodeTpmEvidence } from '../tpm/index.ts';
import type { Issuer, ValidationContext, Validator, Verdict } from '../verdict.ts';
import { CompositeIssuer, CompositeValidator } from './index.ts';

const BINDING = new Uint8Array(64).fill(0xb1);
const never = new AbortController().signal;
const [keyA, keyB] = [Buffer.from('the key of this machine'), Buffer.from('the key of another one')];

const policy: Policy = {
  version: '1',
  profile: 'measured',
  registers: new Map([
    ['launch', { accepted: ['aa'], warnOnly: false }],
    ['pcr4', { accepted: ['bb'], warnOnly: false }],
  ]),
  machines: new Set(['snp-chip:01']),
  tpm: {
    attestationKeys: 'enrolling',
    requiredPcrs: [4],
    requireSafeClock: false,
    eventLog: 'optional',
    loggedPcrs: [],
  },
};
const context: ValidationContext = {
  nowMs: 0,
  policy,
  collateral: { tpm: { attestationKeys: new Map([['stranger', {}]]) } },
};

/** A fake processor whose report consists of the binding only. */
const processor: Issuer = { variant: 'sev-snp', issue: (binding) => Promise.resolve(binding) };

function tpmWith(attestationKey: Uint8Array): Issuer {
  const issue = (binding: Uint8Array): Promise<Uint8Array> =>
    Promise.resolve(
      encodeTpmEvidence({
        attestationKey,
        attest: binding,
        signature: Uint8Array.of(1),
        pcrValues: new Map(),
        size: 1,
        index: 0,
        path: [],
        attachment: new Uint8Array(),
      }),
    );
  return { variant: 'tpm', issue };
}

class RecordingValidator implements Validator {
  readonly variant;
  readonly seen: {
    readonly evidence: Uint8Array;
    readonly binding: Uint8Array;
    readonly context: ValidationContext;
  }[] = [];

  constructor(variant: 'sev-snp' | 'tpm') {
    this.variant = variant;
  }

  validate(evidence: Uint8Array, binding: Uint8Array, given: ValidationContext): Promise<Verdict> {
    this.seen.push({ evidence, binding, context: given });
    const isBound = this.variant === 'tpm' || Buffer.compare(evidence, binding) === 0;
    if (!isBound)
      return Promise.reject(new AttestationError({ 'snp-binding': refusal }, 'snp-binding', 'judging'));
    return Promise.resolve({
      variant: this.variant,
      accepted: true,
      checks: [{ name: `of-${this.variant}`, outcome: 'pass' }],
      measurements: new Map([[this.variant === 'tpm' ? 'pcr4' : 'launch', Uint8Array.of(1)]]),
      machineIdentity: { kind: this.variant === 'tpm' ? 'tpm-ak' : 'snp-chip', id: '01', proof: 'endorsed' },
      claims: { of: this.variant },
      warnings: [],
      policyVersion: given.policy.version,
    });
  }
}

const refusal = { fault: 'peer', exit: 'refused', retryable: false, meaning: '', fix: '' } as const;

function validators() {
  const [snp, tpm] = [new RecordingValidator('sev-snp'), new RecordingValidator('tpm')];
  return { snp, tpm, validator: new CompositeValidator({ variant: 'snp+tpm', processor: snp, tpm }) };
}

const issuerWith = (attestationKey: Uint8Array): Issuer =>
  new CompositeIssuer({ variant: 'snp+tpm', processor, tpm: tpmWith(attestationKey) });

describe('CompositeValidator', () => {
  test('returns the registers of processor and TPM, and the identity of the processor', async () => {
    const { validator } = validators();
    const verdict = await validator.validate(await issuerWith(keyA).issue(BINDING, never), BINDING, context);
    expect(verdict).toMatchObject({
      variant: 'snp+tpm',
      machineIdentity: { kind: 'snp-chip' },
      claims: { of: 'sev-snp', 'tpm.of': 'tpm' },
    });
    expect([...verdict.measurements.keys()]).toEqual(['launch', 'pcr4']);
    expect(verdict.checks.map(({ name }) => name)).toEqual(['of-sev-snp', 'tpm.of-tpm']);
  });

  test('gives each validator its own registers, and the TPM validator only the key that the report certifies', async () => {
    const { snp, tpm, validator } = validators();
    await validator.validate(await issuerWith(keyA).issue(BINDING, never), BINDING, context);
    expect([...(snp.seen[0]?.context.policy.registers.keys() ?? [])]).toEqual(['launch']);
    const given = tpm.seen[0]?.context;
    expect([...(given?.policy.registers.keys() ?? [])]).toEqual(['pcr4']);
    expect(given?.policy.tpm?.attestationKeys).toBe('enrolled');
    const name = `000b${createHash('sha256').update(keyA).digest('hex')}`;
    expect([...(given?.collateral.tpm?.attestationKeys.keys() ?? [])]).toEqual([name]);
    expect(tpm.seen[0]?.binding).toEqual(BINDING);
  });
});

describe('CompositeValidator refuses', () => {
  test('a report combined with the quote of another TPM', async () => {
    const { validator, tpm } = validators();
    const mine = await issuerWith(keyA).issue(BINDING, never);
    const quote = await tpmWith(keyB).issue(BINDING, never);
    const report = mine.subarray(10, 74);
    const forged = Buffer.concat([mine.subarray(0, 6), u32(report.length), report, u32(quote.length), quote]);
    await expect(validator.validate(new Uint8Array(forged), BINDING, context)).rejects.toMatchObject({
      code: 'snp-binding',
    });
    expect(tpm.seen).toHaveLength(0);
  });

  test('a quote with the checks of both parts, each with the name that it has in a verdict', async () => {
    const { snp } = validators();
    const quoteRefused = new AttestationError({ 'quote-signature': refusal }, 'quote-signature', 'judging', {
      checks: [{ name: 'binding', outcome: 'pass' }],
    });
    const tpm: Validator = { variant: 'tpm', validate: () => Promise.reject(quoteRefused) };
    const validator = new CompositeValidator({ variant: 'snp+tpm', processor: snp, tpm });
    const evidence = await issuerWith(keyA).issue(BINDING, never);
    await expect(validator.validate(evidence, BINDING, context)).rejects.toMatchObject({
      code: 'quote-signature',
      checks: [{ name: 'of-sev-snp' }, { name: 'tpm.binding' }, { name: 'tpm.signature', outcome: 'fail' }],
    });
  });

  test('evidence that is bound to another session', async () => {
    const { validator } = validators();
    const evidence = await issuerWith(keyA).issue(new Uint8Array(64), never);
    await expect(validator.validate(evidence, BINDING, context)).rejects.toMatchObject({
      code: 'snp-binding',
    });
  });

  test('a document with one part, of another kind, or with trailing bytes', async () => {
    const { validator } = validators();
    const whole = await issuerWith(keyA).issue(BINDING, never);
    const one = Buffer.concat([whole.subarray(0, 5), Buffer.of(1), whole.subarray(6, 74)]);
    for (const given of [
      one,
      await tpmWith(keyA).issue(BINDING, never),
      Buffer.concat([whole, Buffer.of(0)]),
    ]) {
      await expect(validator.validate(new Uint8Array(given), BINDING, context)).rejects.toMatchObject({
        code: 'attestation-evidence-malformed',
      });
    }
  });

  test('a binding of a wrong length, which CompositeIssuer refuses too', async () => {
    await expect(issuerWith(keyA).issue(new Uint8Array(), never)).rejects.toMatchObject({
      code: 'attestation-binding-length',
    });
    await expect(
      validators().validator.validate(new Uint8Array(), new Uint8Array(), context),
    ).rejects.toMatchObject({ code: 'attestation-binding-length' });
  });
});

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
