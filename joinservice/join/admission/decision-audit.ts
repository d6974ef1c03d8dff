import type { TraceFactRecord } from '../../../internal/records/index.ts';
import type { Applicant } from './applicant.ts';
import { joinErrors } from '../errors.ts';
import type { DecisionCheck, JoinDecision } from './decide-join.ts';

/** What the audit has of a decision. */
export function auditVerdictOf(
  decision: Exclude<JoinDecision, { kind: 'member' }>,
): Readonly<Record<string, unknown>> {
  if (decision.kind === 'admit') {
    const { name, roles, decidedBy: by } = decision.assignment;
    return { verdict: 'admitted', name, roles, by };
  }
  const verdict = decision.kind === 'wait' ? 'waiting' : 'refused';
  return { verdict, code: decision.code, reason: decision.why };
}

export function describeMachine({ machine }: Applicant): Readonly<Record<string, unknown>> {
  const { identity, proof, variant, profile, evidenceDigest, policyVersion } = machine;
  return { identity, proof, variant, profile, evidenceDigest, policyVersion };
}

/** What the trace has of it. */
export function traceFactsOf(
  decision: Exclude<JoinDecision, { kind: 'member' }>,
  { machine }: Applicant,
  timeMs: number,
): readonly TraceFactRecord[] {
  const code = decision.kind === 'admit' ? '' : decision.code;
  const evidence: DecisionCheck = {
    name: 'evidence',
    outcome: 'pass',
    expected: `policy ${machine.policyVersion}`,
    actual: `${machine.variant}, ${machine.profile}, ${machine.identity} (${machine.proof})`,
  };
  return [evidence, ...decision.checks].map((check) => {
    const isCause = check.outcome !== 'pass';
    const { fix } = isCause && decision.kind !== 'admit' ? joinErrors[decision.code] : { fix: '' };
    return { side: 'cluster', ...check, fix, code: isCause ? code : '', timeMs };
  });
}
