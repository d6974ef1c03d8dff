import type { ValidationContext, Validator, Variant, Verdict } from '../../internal/attestation/index.ts';

/** Variants with a report of an AMD or Intel processor, which only collateral of the manufacturer can judge. */
type ProcessorVariant = Extract<Variant, 'sev-snp' | 'tdx' | 'snp+tpm' | 'tdx+tpm'>;

/**
 * Accepts the evidence of a processor without judging it. Only for a machine that takes nothing from the peer but what the cluster CA has
 * signed: collateral expires within weeks, and a machine that was off for longer gets no newer one before its disk is open.
 */
class UnjudgedProcessor implements Validator {
  readonly variant: ProcessorVariant;

  constructor(variant: ProcessorVariant) {
    this.variant = variant;
  }

  validate(_: Uint8Array, __: Uint8Array, { policy }: ValidationContext): Promise<Verdict> {
    const { variant } = this;
    const kind = variant.startsWith('tdx') ? 'tdx-platform' : 'snp-chip';
    return Promise.resolve({
      ...{ variant, accepted: true, checks: [], claims: {}, measurements: new Map() },
      machineIdentity: { kind, id: '', proof: 'unproved' },
      warnings: ['The evidence of the processor was not judged.'],
      policyVersion: policy.version,
    });
  }
}

/** For each variant of a processor, a validator that judges nothing. */
export function unjudgedProcessors(): Readonly<Record<ProcessorVariant, () => Validator>> {
  const of = (variant: ProcessorVariant) => (): Validator => new UnjudgedProcessor(variant);
  return { 'sev-snp': of('sev-snp'), tdx: of('tdx'), 'snp+tpm': of('snp+tpm'), 'tdx+tpm': of('tdx+tpm') };
}
