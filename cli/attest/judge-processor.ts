import type { Verdict } from '../../internal/attestation/index.ts';
import {
  collateralFrom,
  readCollateralFile,
  type CollateralItem,
} from '../../internal/attestation/collateral/index.ts';
import { amdTrust, judgeSnp } from '../../internal/attestation/snp/index.ts';
import { intelTrust, judgeTdx, prepareCollateral } from '../../internal/attestation/tdx/index.ts';
import { CertificateCache } from '../../internal/attestation/x509/index.ts';
import type { ExplainInputs } from './inputs.ts';

/** Endorsements and collateral are told apart by what they are, not by which option named them. */
function allItems(inputs: ExplainInputs): readonly CollateralItem[] {
  return [...inputs.endorsements.flatMap(readCollateralFile), ...inputs.collateral()];
}

export function explainSnp(inputs: ExplainInputs): Verdict {
  const items = allItems(inputs);
  const { snp = { certificates: [], crls: [] } } = collateralFrom(items);
  return judgeSnp(inputs.evidence(), {
    trust: amdTrust(),
    cache: new CertificateCache(),
    collateral: snp,
    nowMs: inputs.nowMs,
    policy: inputs.policy,
    binding: inputs.binding,
  });
}

/** Without collateral the quote's own chain is verified and the TCB is not judged; a policy then refuses. */
export function explainTdx(inputs: ExplainInputs): Verdict {
  const cache = new CertificateCache();
  const items = allItems(inputs);
  const { tdx } = collateralFrom(items);
  const verdict = judgeTdx(inputs.evidence(), {
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
