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

/**
 * The program recognizes endorsements and collateral by their content, not by the option that named the file.
 */
function allItems(inputs: ExplainInputs): readonly CollateralItem[] {
  return [...inputs.endorsements.flatMap(readCollateralFile), ...inputs.collateral()];
}

/** Verifies an SEV-SNP report. @throws AttestationError, AttestError `attest-collateral-unknown` */
export function explainSnp(inputs: ExplainInputs): Verdict {
  const items = allItems(inputs);
  const { snp } = collateralFrom(items);
  const trust = amdTrust();
  refuseUnknownDocuments(items, trust);
  const verdict = verifySnpEvidence(inputs.evidence(), {
    trust,
    cache: new CertificateCache(),
    collateral: snp,
    nowMs: inputs.nowMs,
    policy: inputs.policy,
    binding: inputs.binding,
  });
  if (snp.crls.length > 0) return verdict;
  const warning = 'No CRL given: revocation of AMD certificates was not checked.';
  return { ...verdict, warnings: [...verdict.warnings, warning] };
}

/**
 * A document of an unknown issuer is not ignored: it may be a CRL whose issuer an attacker altered to hide
 * it.
 */
function refuseUnknownDocuments(
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
      `document ${at + 1} of --endorsements and --collateral (${item.kind}) was not issued by AMD`,
    );
  });
}

/**
 * Verifies a TDX quote. Without collateral only the quote's own certificate chain is verified, not its TCB level; any policy
 * then refuses it. @throws AttestationError
 */
export function explainTdx(inputs: ExplainInputs): Verdict {
  const cache = new CertificateCache();
  const items = allItems(inputs);
  const { tdx } = collateralFrom(items);
  const verdict = verifyTdxEvidence(inputs.evidence(), {
    trust: intelTrust(),
    cache,
    collateral: items.length === 0 ? undefined : prepareCollateral(tdx, cache),
    nowMs: inputs.nowMs,
    policy: inputs.policy,
    binding: inputs.binding,
  });
  const warning = 'No collateral given: TCB level and revocation were not checked.';
  return items.length === 0 ? { ...verdict, warnings: [...verdict.warnings, warning] } : verdict;
}
