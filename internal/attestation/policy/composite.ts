import { createHash } from 'node:crypto';
import { checkBinding, checkSizes } from '../appraise.ts';
import { decodeDocument, encodeDocument } from '../document.ts';
import { AppraisalError, attestationErrors } from '../errors.ts';
import type { Policy } from '../rules.ts';
import { decodeTpmEvidence } from '../tpm/evidence.ts';
import { nameOfBytes } from '../tpm/verify-evidence.ts';
import type { Issuer, ValidationContext, Validator, Verdict } from '../verdict.ts';

/** Machines whose confidential processor certifies the attestation key of their virtual TPM. */
type CompositeVariant = 'snp+tpm' | 'tdx+tpm';

const MAGIC = 'CTEE';
const FORMAT = {
  magic: MAGIC,
  maxParts: 2,
  catalogue: attestationErrors,
  malformed: 'attestation-evidence-malformed',
} as const;
const LABEL = 'cluster attestation key in confidential machine v1\0';
const TPM_REGISTER = /^pcr\d+$/;

/**
 * The binding of the processor's report: a hash over the session's binding and the Name of the TPM's attestation key.
 * So the report certifies the key for one session only.
 */
function reportBinding(binding: Uint8Array, keyName: string): Uint8Array {
  return new Uint8Array(
    createHash('sha512').update(LABEL, 'ascii').update(binding).update(keyName, 'ascii').digest(),
  );
}

interface CompositeOptions<Part> {
  readonly variant: CompositeVariant;
  readonly processor: Part;
  readonly tpm: Part;
}

/** Creates evidence that consists of a processor report and a TPM quote. */
export class CompositeIssuer implements Issuer {
  readonly variant: CompositeVariant;
  readonly #processor: Issuer;
  readonly #tpm: Issuer;

  constructor(options: CompositeOptions<Issuer>) {
    this.variant = options.variant;
    this.#processor = options.processor;
    this.#tpm = options.tpm;
  }

  async issue(binding: Uint8Array, signal: AbortSignal): Promise<Uint8Array> {
    checkBinding(binding);
    const quote = await this.#tpm.issue(binding, signal);
    const report = await this.#processor.issue(reportBinding(binding, keyNameIn(quote)), signal);
    return encodeDocument(MAGIC, [report, quote]);
  }
}

/**
 * Verifies the processor's report, then the TPM quote, which only the key that the report certifies may have signed.
 */
export class CompositeValidator implements Validator {
  readonly variant: CompositeVariant;
  readonly #processor: Validator;
  readonly #tpm: Validator;

  constructor(options: CompositeOptions<Validator>) {
    this.variant = options.variant;
    this.#processor = options.processor;
    this.#tpm = options.tpm;
  }

  async validate(evidence: Uint8Array, binding: Uint8Array, context: ValidationContext): Promise<Verdict> {
    checkSizes(evidence, binding);
    const [report, quote] = decodeDocument(evidence, FORMAT);
    if (report === undefined || quote === undefined) {
      throw new AppraisalError(
        'attestation-evidence-malformed',
        'verifying composite evidence: the report or the quote is missing',
      );
    }
    const keyName = keyNameIn(quote);
    const processor = await this.#processor.validate(report, reportBinding(binding, keyName), {
      ...context,
      policy: partOf(context.policy, (register) => !TPM_REGISTER.test(register)),
    });
    const tpm = await this.#tpm.validate(quote, binding, vouchedFor(context, keyName));
    return merge(this.variant, processor, tpm);
  }
}

/**
 * The context for the quote: only the TPM registers of the policy, and only the key that the report certifies. Any
 * machine is accepted, because the report has proved which machine it is.
 */
function vouchedFor(context: ValidationContext, keyName: string): ValidationContext {
  const known = context.collateral.tpm?.attestationKeys.get(keyName) ?? {};
  const { tpm, ...policy } = partOf(context.policy, (register) => TPM_REGISTER.test(register));
  return {
    nowMs: context.nowMs,
    policy: { ...policy, machines: 'any', ...(tpm && { tpm: { ...tpm, attestationKeys: 'enrolled' } }) },
    collateral: {
      ...context.collateral,
      tpm: { attestationKeys: new Map([[keyName, known]]) },
    },
  };
}

/** The Name (hex) of the attestation key in a quote's evidence document. The quote is not verified yet. */
function keyNameIn(quote: Uint8Array): string {
  const { attestationKey } = decodeTpmEvidence(quote);
  return nameOfBytes(attestationKey);
}

function partOf(policy: Policy, isMine: (register: string) => boolean): Policy {
  return { ...policy, registers: new Map([...policy.registers].filter(([name]) => isMine(name))) };
}

function merge(variant: CompositeVariant, processor: Verdict, tpm: Verdict): Verdict {
  const prefixed = Object.entries(tpm.claims).map(([name, claim]) => [`tpm.${name}`, claim] as const);
  return {
    ...processor,
    variant,
    checks: [...processor.checks, ...tpm.checks],
    measurements: new Map([...processor.measurements, ...tpm.measurements]),
    claims: { ...processor.claims, ...Object.fromEntries(prefixed) },
    warnings: [...processor.warnings, ...tpm.warnings],
  };
}
