import { createHash } from 'node:crypto';
import { checkBinding, checkSizes } from '../appraise.ts';
import { decodeDocument, encodeDocument } from '../document.ts';
import { AppraisalError, AttestationError, attestationErrors } from '../errors.ts';
import type { Policy } from '../rules.ts';
import { decodeTpmEvidence } from '../tpm/evidence.ts';
import { nameOfBytes } from '../tpm/verify-evidence.ts';
import type { Check, Issuer, ValidationContext, Validator, Verdict } from '../verdict.ts';

/** Machines whose confidential processor certifies the attestation key of their virtual TPM. */
export type CompositeVariant = 'snp+tpm' | 'tdx+tpm';

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

/** The parts of composite evidence, not verified yet. */
export interface CompositeParts {
  readonly report: Uint8Array;
  readonly quote: Uint8Array;
  /** Public area (TPMT_PUBLIC) of the key that the quote names. The report certifies its Name. */
  readonly attestationKey: Uint8Array;
}

/** Splits composite evidence. @throws AttestationError `attestation-evidence-malformed`, `quote-…` */
export function decodeComposite(evidence: Uint8Array): CompositeParts {
  const [report, quote] = decodeDocument(evidence, FORMAT);
  if (report === undefined || quote === undefined) {
    throw new AppraisalError(
      'attestation-evidence-malformed',
      'verifying composite evidence: the report or the quote is missing',
    );
  }
  return { report, quote, attestationKey: decodeTpmEvidence(quote).attestationKey };
}

/** The value that the report data of the processor must have for a session, 64 bytes. */
export function compositeReportBinding(binding: Uint8Array, { attestationKey }: CompositeParts): Uint8Array {
  return reportBinding(binding, nameOfBytes(attestationKey));
}

/**
 * The policy for the report and the policy for the quote, each with its own registers. The policy for the quote accepts
 * any machine, because the report proves which machine it is. It accepts only the key that the report certifies, as if
 * that key were enrolled.
 */
export function compositePolicies(policy: Policy): { readonly processor: Policy; readonly tpm: Policy } {
  const { tpm, ...rest } = partOf(policy, (register) => TPM_REGISTER.test(register));
  return {
    processor: partOf(policy, (register) => !TPM_REGISTER.test(register)),
    tpm: { ...rest, machines: 'any', ...(tpm && { tpm: { ...tpm, attestationKeys: 'enrolled' } }) },
  };
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

/** Verifies the processor's report, then the TPM quote. The report must certify the key that signed the quote. */
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
    const parts = decodeComposite(evidence);
    const policies = compositePolicies(context.policy);
    const processor = await this.#processor.validate(parts.report, compositeReportBinding(binding, parts), {
      ...context,
      policy: policies.processor,
    });
    const keyName = nameOfBytes(parts.attestationKey);
    const known = context.collateral.tpm?.attestationKeys.get(keyName) ?? {};
    return mergeVerdicts(this.variant, processor, () =>
      this.#tpm.validate(parts.quote, binding, {
        nowMs: context.nowMs,
        policy: policies.tpm,
        collateral: { ...context.collateral, tpm: { attestationKeys: new Map([[keyName, known]]) } },
      }),
    );
  }
}

/** The Name (hex) of the attestation key in a quote's evidence document. The quote is not verified yet. */
function keyNameIn(quote: Uint8Array): string {
  const { attestationKey } = decodeTpmEvidence(quote);
  return nameOfBytes(attestationKey);
}

function partOf(policy: Policy, isMine: (register: string) => boolean): Policy {
  return { ...policy, registers: new Map([...policy.registers].filter(([name]) => isMine(name))) };
}

/**
 * Verifies the quote and returns one verdict for both parts: machine and TCB from the processor; registers, checks, claims and
 * warnings from both. A refusal of the quote has the checks of both parts too.
 */
export async function mergeVerdicts(
  variant: CompositeVariant,
  processor: Verdict,
  verifyQuote: () => Promise<Verdict>,
): Promise<Verdict> {
  const tpm = await verifyQuote().catch((error: unknown) => {
    if (!(error instanceof AttestationError)) throw error;
    throw error.within('verifying composite evidence', [...processor.checks, ...ofTpm(error.checks)]);
  });
  const prefixed = Object.entries(tpm.claims).map(([name, claim]) => [`tpm.${name}`, claim] as const);
  return {
    ...processor,
    variant,
    checks: [...processor.checks, ...ofTpm(tpm.checks)],
    measurements: new Map([...processor.measurements, ...tpm.measurements]),
    claims: { ...processor.claims, ...Object.fromEntries(prefixed) },
    warnings: [...processor.warnings, ...tpm.warnings],
  };
}

/** The checks of a quote with names that differ from those of the processor's report. */
function ofTpm(checks: readonly Check[]): readonly Check[] {
  return checks.map((check) => ({ ...check, name: `tpm.${check.name}` }));
}
