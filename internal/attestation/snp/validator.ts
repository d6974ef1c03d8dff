import { checkSizes } from '../appraise.ts';
import { AppraisalError } from '../errors.ts';
import type { ValidationContext, Validator, Verdict } from '../verdict.ts';
import type { CertificateCache } from '../x509/index.ts';
import { verifySnpEvidence } from './verify-evidence.ts';
import type { SnpTrust } from './verify-report.ts';

/** Verifies the SEV-SNP evidence of a peer, always with binding and policy. */
export class SnpValidator implements Validator {
  readonly variant = 'sev-snp';
  readonly #trust: SnpTrust;
  readonly #cache: CertificateCache;

  constructor(options: { readonly trust: SnpTrust; readonly cache: CertificateCache }) {
    this.#trust = options.trust;
    this.#cache = options.cache;
  }

  async validate(evidence: Uint8Array, binding: Uint8Array, context: ValidationContext): Promise<Verdict> {
    checkSizes(evidence, binding);
    const { policy, collateral, nowMs } = context;
    if (policy.snp === undefined || collateral.snp === undefined) {
      throw new AppraisalError('attestation-policy-missing', 'verifying an SNP report');
    }
    const trusted = { trust: this.#trust, cache: this.#cache };
    return verifySnpEvidence(evidence, { ...trusted, binding, policy, collateral: collateral.snp, nowMs });
  }
}
