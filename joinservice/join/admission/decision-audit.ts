import { proofText } from '../../../internal/attestation/index.ts';
import type { TraceFactRecord } from '../../../internal/records/index.ts';
import type { Applicant } from './applicant.ts';
import { joinErrors } from '../errors.ts';
import type { DecisionCheck, NewDecision } from './decide-join.ts';

/** The verdict of a decision for the audit log. */
export function auditVerdictOf(decision: NewDecision): Readonly<Record<string, unknown>> {
  if (decision.kind === 'admit') {
    const { name, roles, decidedBy } = decision.assignment;
    return { verdict: 'admitted', name, roles, by: decidedBy };
  }
  const verdict = decision.kind === 'wait' ? 'waiting' : 'refused';
  return { verdict, code: decision.code, reason: decision.why };
}

/** The machine and its evidence for the audit log. */
export function describeMachine({ machine }: Applicant): Readonly<Record<string, unknown>> {
  const { identity, proof, variant, profile, evidenceDigest, policyVersion } = machine;
  return { identity, proof, variant, profile, evidenceDigest, policyVersion };
}

/** The checks of a decision for the trace. */
export function traceFactsOf(
  decision: NewDecision,
  { machine }: Applicant,
  timeMs: number,
): readonly TraceFactRecord[] {
  const code = decision.kind === 'admit' ? '' : decision.code;
  const evidence: DecisionCheck = {
    name: 'evidence',
    outcome: 'pass',
    expected: `policy ${machine.policyVersion}`,
    actual: `${machine.variant}, ${machine.profile}, ${machine.identity} (${proofText(machine.proof)})`,
  };
  return [evidence, ...decision.checks].map((check) => {
    const isCause = check.outcome !== 'pass';
    const { fix } = isCause && decision.kind !== 'admit' ? joinErrors[decision.code] : { fix: '' };
    return { side: 'cluster', ...check, fix, code: isCause ? code : '', timeMs };
  });
}
