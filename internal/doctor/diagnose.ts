import { runChecks, type CheckResult, type CheckStatus } from '../preflight/index.ts';
import type { ClusterFacts } from './cluster-facts.ts';
import { DOCTOR_CHECKS, type DoctorCheck, type Layer } from './doctor-checks.ts';
import type { DoctorErrorCode } from './errors.ts';

/** The grade of a finding, for people and programs. */
export type Grade = 'good' | 'warning' | 'error' | 'unknown';

/** What one check has found for one subject. */
export interface Finding extends Pick<
  CheckResult,
  'subject' | 'figure' | 'threshold' | 'cause' | 'fix' | 'node'
> {
  readonly code: DoctorErrorCode;
  readonly layer: Layer;
  readonly grade: Grade;
  /** Code of the error that this problem probably follows from; undefined: none, or the finding is good. */
  readonly followsFrom: DoctorErrorCode | undefined;
}

const GRADES: Readonly<Record<CheckStatus, Grade>> = {
  ok: 'good',
  warning: 'warning',
  failed: 'error',
  skipped: 'unknown',
};
const SEVERITIES: readonly Grade[] = ['error', 'warning', 'unknown'];

/**
 * Judges the facts with every check, in the order of the list; facts of a single machine with those checks that need no more. Pure:
 * the same facts give the same findings anywhere.
 * @param nodes only findings about these nodes and about the whole cluster; empty: all
 */
export function diagnose(facts: ClusterFacts, nodes: readonly string[] = []): readonly Finding[] {
  const checks = DOCTOR_CHECKS.filter(({ isOfMachine }) => facts.local === undefined || isOfMachine);
  const judged = checks.flatMap((check) => runChecks([check], facts).map((seen) => ({ check, seen })));
  return judged
    .map((each, index) => findingFrom(each, each.seen.status === 'skipped' ? judged : judged.slice(0, index)))
    .filter(({ node }) => nodes.length === 0 || node === undefined || nodes.includes(node));
}

/**
 * The problems, likely causes first: errors, then warnings, then unknowns. Problems that follow from another problem
 * come last.
 */
export function problemsFrom(findings: readonly Finding[]): readonly Finding[] {
  const rank = ({ grade, followsFrom }: Finding): number =>
    SEVERITIES.indexOf(grade) + (followsFrom === undefined ? 0 : SEVERITIES.length);
  return findings.filter(({ grade }) => grade !== 'good').toSorted((a, b) => rank(a) - rank(b));
}

interface Judged {
  readonly check: DoctorCheck;
  readonly seen: CheckResult;
}

/**
 * @param causes findings that may explain this one: all earlier findings, or all findings if the fact was not measured
 */
function findingFrom({ check, seen }: Judged, causes: readonly Judged[]): Finding {
  const { subject, figure, threshold, cause, fix, node, status } = seen;
  const reason =
    status === 'ok' ? undefined : causes.find((other) => explains(other, { check, seen }))?.check.code;
  return {
    ...{
      code: check.code,
      layer: check.layer,
      grade: GRADES[status],
      subject,
      figure,
      threshold,
      cause,
      fix: node === undefined ? fix : fix.replaceAll(/\bNODE\b/g, node),
    },
    ...(node !== undefined && { node }),
    followsFrom: reason,
  };
}

/**
 * Whether a failure explains a problem of another check. Both must be about the same node, unless one of them is about
 * the whole cluster.
 */
function explains(cause: Judged, effect: Judged): boolean {
  if (cause.seen.status !== 'failed' || !cause.check.explains.includes(effect.check.code)) return false;
  if (cause.check.code === effect.check.code) return false;
  const [at, of] = [cause.seen.node, effect.seen.node];
  return at === undefined || of === undefined || at === of;
}
