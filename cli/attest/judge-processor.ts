import type { Verdict } from '../../internal/attestation/index.ts';
import {
  collateralFrom,
  manufacturerOf,
  readCollateralFile,
  type CollateralItem,
} from '../../internal/attestation/collateral/index.ts';
import { amdTrust, verifySnpEvidence } from '../../internal/attestation/snp/index.ts';
import { intelTrust, verifyTdxEvidence, prepareCollateral } from '../../internal/attestation/tdx/index.ts';
import { CertificateCache, parseCertificate, parseCrl } from '../../internal/attestation/x509/index.ts';
import { AttestError } from './errors.ts';
import type { ExplainInputs } from './inputs.ts';

/** Endorsements and collateral are told apart by what they are, not by which option named them. */
function allItems(inputs: ExplainInputs): readonly CollateralItem[] {
  return [...inputs.endorsements.flatMap(readCollateralFile), ...inputs.collateral()];
}

export function explainSnp(inputs: ExplainInputs): Verdict {
  const items = allItems(inputs);
  const { snp = { certificates: [], crls: [] } } = collateralFrom(items);
  const trust = amdTrust();
  refuseUnplaced(items, trust);
  const verdict = verifySnpEvidence(inputs.evidence(), {
    trust,
    cache: new CertificateCache(),
    collateral: snp,
    nowMs: inputs.nowMs,
    policy: inputs.policy,
    binding: inputs.binding,
  });
  if (snp.crls.length > 0) return verdict;
  const warning = 'No revocation list was given: whether AMD took a certificate back was not judged.';
  return { ...verdict, warnings: [...verdict.warnings, warning] };
}

/**
 * No document is passed over: one that belongs to no authority of AMD may be a revocation list that somebody has altered, so that
 * nobody looks at it.
 */
function refuseUnplaced(
  items: readonly CollateralItem[],
  { authorities }: ReturnType<typeof amdTrust>,
): void {
  const subjects = authorities.map((der) => parseCertificate(der).subject.der);
  items.forEach((item, at) => {
    const isKnown =
      'der' in item &&
      manufacturerOf(item) === 'amd' &&
      (item.kind !== 'crl' ||
        subjects.some((der) => Buffer.compare(der, parseCrl(item.der).issuer.der) === 0));
    if (isKnown) return;
    throw new AttestError(
      'attest-collateral-unknown',
      `placing document ${at + 1} of --endorsements and --collateral (${item.kind}): no authority of AMD issued it`,
    );
  });
}

/** Without collateral the quote's own chain is verified and the TCB is not judged; a policy then refuses. */
export function explainTdx(inputs: ExplainInputs): Verdict {
  const cache = new CertificateCache();
  const items = allItems(inputs);
  const { tdx } = collateralFrom(items);
  const verdict = verifyTdxEvidence(inputs.evidence(), {
    trust: intelTrust(),
    cache,
    collateral: items.length === 0 || tdx === undefined ? undefined : prepareCollateral(tdx, cache),
    nowMs: inputs.nowMs,
    policy: inputs.policy,
    binding: inputs.binding,
  });
  const warning = 'No collateral was given: TCB level and revocation were not judged.';
  return items.length === 0 ? { ...verdict, warnings: [...verdict.warnings, warning] } : verdict;
}
