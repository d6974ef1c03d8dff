import { checkSizes } from '../appraise.ts';
import { refuseOnCertificateError } from '../certificate-refusal.ts';
import { CheckList } from '../check-list.ts';
import { AppraisalError } from '../errors.ts';
import type { ValidationContext, Validator, Verdict } from '../verdict.ts';
import type { CertificateCache } from '../x509/index.ts';
import { IntelCollateral } from './collateral.ts';
import { tdxErrors } from './errors.ts';
import { verifyTdxEvidence } from './verify-evidence.ts';
import type { TdxCollateral } from './rules.ts';
import type { TdxTrust } from './verify-quote.ts';

/** Configuration of a `TdxValidator`. */
interface TdxValidatorOptions {
  readonly trust: TdxTrust;
  readonly cache: CertificateCache;
}

/** Verifies the TDX evidence of a peer, always with binding, collateral and policy. */
export class TdxValidator implements Validator {
  readonly variant = 'tdx';
  readonly #options: TdxValidatorOptions;
  /** Each bundle is parsed once: a bundle never changes, it is only replaced. */
  readonly #prepared = new WeakMap<TdxCollateral, IntelCollateral>();

  constructor(options: TdxValidatorOptions) {
    this.#options = options;
  }

  async validate(evidence: Uint8Array, binding: Uint8Array, context: ValidationContext): Promise<Verdict> {
    checkSizes(evidence, binding);
    const { policy, collateral, nowMs } = context;
    if (policy.tdx === undefined || collateral.tdx === undefined) {
      throw new AppraisalError('attestation-policy-missing', 'verifying a TDX quote');
    }
    return verifyTdxEvidence(evidence, {
      ...this.#options,
      binding,
      policy,
      collateral: this.#prepare(collateral.tdx),
      nowMs,
    });
  }

  #prepare(raw: TdxCollateral): IntelCollateral {
    const known = this.#prepared.get(raw) ?? prepareCollateral(raw, this.#options.cache);
    this.#prepared.set(raw, known);
    return known;
  }
}

/** Parses collateral. Throws AttestationError `x509-…` for a malformed certificate or CRL. */
export function prepareCollateral(raw: TdxCollateral, cache: CertificateCache): IntelCollateral {
  return refuseOnCertificateError(
    new CheckList(tdxErrors, 'reading TDX collateral'),
    'collateral-malformed',
    () => new IntelCollateral(raw, cache),
  );
}
