import { TraceFact_Outcome, type TraceFact } from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import type { CommandContext } from '../../app/command.ts';
import { fixOfCode } from '../../app/explain.ts';
import { printable } from '../../../internal/printable/index.ts';
import { callCurator } from '../../cluster/index.ts';
import { joinViewFrom, withoutCut, type JoinView } from './joins.ts';

/** One check of a join, as plain values. */
export type FactView = Readonly<ReturnType<typeof factFrom>>;

type Outcome = 'pass' | 'warn' | 'fail' | 'wait' | 'unknown';

const OUTCOMES: Readonly<Record<TraceFact_Outcome, Outcome>> = {
  [TraceFact_Outcome.UNSPECIFIED]: 'unknown',
  [TraceFact_Outcome.PASS]: 'pass',
  [TraceFact_Outcome.WARN]: 'warn',
  [TraceFact_Outcome.FAIL]: 'fail',
  [TraceFact_Outcome.WAIT]: 'wait',
};
/** What the cluster and a machine recorded about a join, oldest check first. */
export interface Trace {
  readonly subject: string;
  readonly joinId: string;
  readonly nodeName: string;
  /** undefined for a machine without a stored request. */
  readonly join: JoinView | undefined;
  readonly facts: readonly FactView[];
}

/** Reads the trace of a join, by any name of the machine that `cluster explain` takes. */
export async function readTrace(context: CommandContext, subject: string): Promise<Trace> {
  const trace = await callCurator(context, ({ operatorApi }) =>
    operatorApi.getTrace({ subject: withoutCut(subject) }),
  );
  const join = trace.join === undefined ? undefined : joinViewFrom(trace.join);
  const joinId = printable(trace.joinId);
  const facts = trace.facts.map((fact) => factFrom(fact, joinId)).toSorted((a, b) => a.timeMs - b.timeMs);
  return {
    subject,
    joinId,
    nodeName: printable(trace.nodeName),
    join,
    facts: facts.filter((fact) => !isSettled(fact, join)),
  };
}

/**
 * Whether the machine waited for a decision that was made since. Control planes do not judge an approved machine again, so
 * this check stays in the trace. A control plane waits for its slot also after it has joined.
 */
function isSettled({ name, outcome, timeMs }: FactView, join: JoinView | undefined): boolean {
  if (outcome !== 'wait' || name === 'slot' || join === undefined) return false;
  return join.state === 'joined' || (join.state === 'approved' && timeMs <= join.decidedMs);
}

/** Whether the fix of a check is worth showing. */
export function needsFix({ fix, outcome }: FactView): boolean {
  return fix !== '' && outcome !== 'pass';
}

/** Whether this is the node on which the cluster was created: the only one without a request to join. */
export function isFirstNode({ join, nodeName, facts }: Pick<Trace, 'join' | 'nodeName' | 'facts'>): boolean {
  return join === undefined && nodeName !== '' && facts.every(({ outcome }) => outcome !== 'fail');
}

/** How the join ended, or stands, in one line. */
export function traceVerdict(trace: Pick<Trace, 'join' | 'nodeName' | 'facts'>): string {
  const { join, facts } = trace;
  const failed = facts.findLast(({ outcome }) => outcome === 'fail');
  if (isFirstNode(trace))
    return 'the first node: `cluster init` created the cluster on it, so it never asked to join';
  if (join === undefined) {
    if (failed === undefined) return 'no problems found';
    return `failed at ${failed.name}${failed.code === '' ? '' : `: ${failed.code}`}`;
  }
  const by = join.decidedBy === '' ? '' : ` by ${join.decidedBy}`;
  const why = join.code === '' ? '' : `: ${join.code} ${join.message}`;
  return `${join.state}${by}${why}`.trim();
}

/** What a check has found, beside what it expected if that differs. */
export function comparison({ expected, actual, outcome }: FactView): string {
  if (expected === '' || outcome === 'pass') return actual;
  return actual === expected ? actual : `expected ${expected}, found ${actual || '<none>'}`;
}

function factFrom(fact: TraceFact, joinId: string) {
  const fix = printable(fact.fix) || (fixOfCode(printable(fact.code)) ?? '');
  const code = printable(fact.code);
  return {
    side: printable(fact.side),
    name: printable(fact.name),
    outcome: OUTCOMES[fact.outcome],
    expected: printable(fact.expected),
    actual: printable(fact.actual),
    // Checks from the audit log have a code and no fix.
    // Commands in fixes of codes name no certain machine.
    fix: joinId === '' ? fix : fix.replaceAll(/(?<=`cluster [a-z ]+)\bMACHINE\b/g, joinId),
    code,
    timeMs: Number(fact.timeMs),
  };
}
