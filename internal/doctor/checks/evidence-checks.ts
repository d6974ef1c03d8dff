import { REFRESH_COLLATERAL } from '../../attestation/x509/index.ts';
import { failed, type Observation } from '../../preflight/index.ts';
import type { EvidenceFacts } from '../cluster-facts.ts';
import { judgePart, notMeasured, type Observe } from '../observe.ts';

const THRESHOLD = 'accepted by the policy and the record';
/** Refusals for a lack of this workstation, not of the machine: it has no collateral, or an old one. */
const OF_COLLATERAL = /-collateral-/;
const OF_WORKSTATION = /-collateral-|^attestation-policy-/;
const OF_REGISTERS: readonly string[] = ['attestation-register-mismatch', 'attestation-register-missing'];

/** Whether the policy and the record of each node accept fresh evidence of its machine. */
export const evidence: Observe = ({ evidence: all, records }) => {
  if (all === undefined)
    return [notMeasured({ subject: 'evidence', threshold: THRESHOLD }, 'the facts contain no evidence')];
  if (!records.ok) return [notMeasured({ subject: 'evidence', threshold: THRESHOLD }, records.error)];
  return all.flatMap(({ node, answer }) => {
    const seen = { subject: `evidence of ${node}`, node, threshold: THRESHOLD };
    return judgePart(answer, seen, (value) => [judgeEvidence(value, seen)]);
  });
};

function judgeEvidence(
  { variant, profile, isAccepted, refusal }: EvidenceFacts,
  seen: Pick<Observation, 'subject' | 'threshold'> & { readonly node: string },
): Observation {
  if (isAccepted && refusal === undefined) return { ...seen, figure: acceptedText(variant, profile) };
  const { code = 'internal', reason = 'no reason given' } = refusal ?? {};
  if (OF_WORKSTATION.test(code)) {
    const cause = `the evidence of ${seen.node} cannot be judged here: ${code}: ${reason}`;
    const fix = OF_COLLATERAL.test(code) ? { fix: REFRESH_COLLATERAL } : {};
    return { ...seen, figure: 'not judged', problem: { status: 'skipped', cause, ...fix } };
  }
  const why = refusal === undefined ? reason : whyRefused(refusal);
  return {
    ...seen,
    figure: 'refused',
    problem: failed(`the evidence of ${seen.node} is refused: ${code}: ${why}`),
  };
}

function acceptedText(variant: string, profile: string): string {
  if (variant === 'machine-key') return 'machine key, no TPM evidence';
  const name = variant === 'tpm' ? 'TPM' : variant;
  return `${name} evidence accepted${profile === 'identity' ? ', software not attested' : ''}`;
}

function whyRefused({
  code,
  reason,
  differing,
  lockRegister,
}: NonNullable<EvidenceFacts['refusal']>): string {
  if (!OF_REGISTERS.includes(code) || differing.length === 0) return reason;
  const others = differing.filter((name) => name !== lockRegister);
  return [
    ...(others.length === 0
      ? []
      : [
          `${others.join(', ')} ${others.length === 1 ? 'differs' : 'differ'} from the reference values, which are outdated, or other software was started`,
        ]),
    ...(differing.includes(lockRegister)
      ? [`${lockRegister} does not show that the machine is bound to this cluster`]
      : []),
  ].join('; ');
}
