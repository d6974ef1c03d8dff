import type { Verdict } from '../../internal/attestation/index.ts';
import {
  compositePolicies,
  compositeReportBinding,
  decodeComposite,
  mergeVerdicts,
  type CompositeVariant,
} from '../../internal/attestation/policy/index.ts';
import type { ExplainInputs } from './inputs.ts';
import { explainTpm } from './judge-tpm.ts';

/**
 * Verifies a processor report and the quote of the virtual TPM whose key the report certifies. Only a binding shows
 * that the report certifies this key. Without a binding, both parts are verified, and the verdict warns that they may
 * come from two machines.
 * @param judgeReport verifies the report
 * @throws AttestationError
 */
export async function explainComposite(
  variant: CompositeVariant,
  judgeReport: (inputs: ExplainInputs) => Verdict,
  inputs: ExplainInputs,
): Promise<Verdict> {
  const { policy, binding } = inputs;
  const parts = decodeComposite(inputs.evidence());
  const policies = policy === 'not-judged' ? { processor: policy, tpm: policy } : compositePolicies(policy);
  const processor = judgeReport({
    ...inputs,
    evidence: () => parts.report,
    policy: policies.processor,
    binding: binding === 'not-judged' ? binding : compositeReportBinding(binding, parts),
  });
  const verdict = await mergeVerdicts(variant, processor, () =>
    explainTpm({
      ...inputs,
      variant: 'tpm',
      evidence: () => parts.quote,
      // Without a binding, nothing shows that the report certifies the key. A policy then refuses the quote.
      endorsements: binding === 'not-judged' ? [] : [{ name: inputs.name, bytes: parts.attestationKey }],
      policy: policies.tpm,
    }),
  );
  if (binding !== 'not-judged') return verdict;
  const warning = 'No binding given: nothing shows that the report certifies the key of the quote.';
  return { ...verdict, warnings: [...verdict.warnings, warning] };
}
