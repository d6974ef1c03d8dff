import type { Verdict } from '../../internal/attestation/index.ts';
import {
  collateralFrom,
  manufacturerOf,
  readCollateralFile,
  type CollateralItem,
} from '../../internal/attestation/collateral/index.ts';
import { amdTrust, verifySnpEvidence } from '../../internal/attestation/snp/index.ts';
import {
  decodeTdxEvidence,
  encodeTdxEvidence,
  intelTrust,
  prepareCollateral,
  verifyTdxEvidence,
} from '../../internal/attestation/tdx/index.ts';
import { CertificateCache, parseCertificate, parseCrl } from '../../internal/attestation/x509/index.ts';
import { AttestError } from './errors.ts';
import type { ExplainInputs } from './inputs.ts';
import { isEventLog } from './tpm-files.ts';

/**
 * The program recognizes endorsements and collateral by their content, not by the option that named the file.
 */
function allItems(inputs: Pick<ExplainInputs, 'endorsements' | 'collateral'>): readonly CollateralItem[] {
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
 * A document of an unknown issuer is not ignored: it may be a CRL in which an attacker altered the issuer, so that
 * nobody finds the CRL.
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
 * Verifies a TDX quote, and a CCEL event log beside it. Without collateral only the quote's own certificate chain is verified, not its TCB level; any policy
 * then refuses it. @throws AttestationError
 */
export function explainTdx(inputs: ExplainInputs): Verdict {
  const cache = new CertificateCache();
  const logs = inputs.endorsements.filter(isEventLog);
  const endorsements = inputs.endorsements.filter((file) => !isEventLog(file));
  const items = allItems({ ...inputs, endorsements });
  const { tdx } = collateralFrom(items);
  const verdict = verifyTdxEvidence(withEventLog(inputs.evidence(), logs), {
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

/** A quote and the event log that was given beside it. @throws AttestError `attest-endorsement-unknown` for a second log */
function withEventLog(evidence: Uint8Array, [eventLog, ...more]: readonly Uint8Array[]): Uint8Array {
  if (eventLog === undefined) return evidence;
  const { quote, eventLog: own } = decodeTdxEvidence(evidence);
  if (own === undefined && more.length === 0) return encodeTdxEvidence({ quote, eventLog });
  throw new AttestError('attest-endorsement-unknown', 'more than one event log was given for one TDX quote');
}
