import { formatDuration } from '../../../internal/clock/index.ts';
import { TraceFact_Outcome, type TraceFact } from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import type { ExitName } from '../../../internal/errors/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { fixOfCode } from '../../app/explain.ts';
import { printable } from '../../../internal/printable/index.ts';
import { joinViewFrom, type JoinView } from './joins.ts';
import { callCurator } from '../../cluster/index.ts';

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
const SYMBOLS: Readonly<Record<Outcome, string>> = {
  pass: '✓',
  warn: '!',
  fail: '✗',
  wait: '…',
  unknown: '?',
};

/**
 * `cluster explain`: how a machine joined, or why it could not, as recorded by the machine and by control
 * planes. If its evidence was refused, only its address is on record. Exits `unhealthy` if a failed check
 * prevents it from joining.
 */
export async function runExplainJoin(context: CommandContext, subject: string): Promise<ExitName> {
  const trace = await callCurator(context, ({ operatorApi }) => operatorApi.getTrace({ subject }));
  const facts = trace.facts.map(factFrom).toSorted((a, b) => a.timeMs - b.timeMs);
  const join = trace.join === undefined ? undefined : joinViewFrom(trace.join);
  const nodeName = printable(trace.nodeName);
  const nowMs = context.ports.clock.nowMs();
  context.host.result({ joinId: printable(trace.joinId), nodeName, join, facts }, () =>
    renderTrace({ subject, nodeName, join, facts }, nowMs),
  );
  const isIn = join === undefined ? nodeName !== '' : join.state === 'joined';
  return !isIn && facts.some(({ outcome }) => outcome === 'fail') ? 'unhealthy' : 'ok';
}

/** The checks of a join as text. Times are relative to `nowMs`. */
export function renderTrace(
  trace: {
    readonly subject: string;
    readonly nodeName: string;
    readonly join: JoinView | undefined;
    readonly facts: readonly FactView[];
  },
  nowMs: number,
): string {
  const { subject, nodeName, join, facts } = trace;
  // Somebody has approved a member, also if its request first waited for that.
  const needsFix = ({ name, fix, outcome }: FactView): boolean =>
    fix !== '' && outcome !== 'pass' && !(name === 'policy' && join?.state === 'joined');
  const lines = facts.flatMap((fact) => [
    `${SYMBOLS[fact.outcome]} ${fact.side.padEnd(8)} ${fact.name.padEnd(14)} ${comparison(fact)}  ${formatDuration(nowMs - fact.timeMs)} ago`.trimEnd(),
    ...(fact.code === '' ? [] : [`    code  ${fact.code}`]),
    ...(needsFix(fact) ? [`    fix   ${fact.fix}`] : []),
  ]);
  return [
    `${nodeName || subject}: ${verdictOf(join, facts)}`,
    ...(lines.length === 0 ? ['  nothing checked yet'] : lines.map((line) => `  ${line}`)),
  ].join('\n');
}

function verdictOf(join: JoinView | undefined, facts: readonly FactView[]): string {
  const failed = facts.findLast(({ outcome }) => outcome === 'fail');
  if (join === undefined) {
    if (failed === undefined) return 'no problems found';
    return `failed at ${failed.name}${failed.code === '' ? '' : `: ${failed.code}`}`;
  }
  const by = join.decidedBy === '' ? '' : ` by ${join.decidedBy}`;
  const why = join.code === '' ? '' : `: ${join.code} ${join.message}`;
  return `${join.state}${by}${why}`.trim();
}

function comparison({ expected, actual, outcome }: FactView): string {
  if (expected === '' || outcome === 'pass') return actual;
  return actual === expected ? actual : `expected ${expected}, found ${actual || '<none>'}`;
}

function factFrom(fact: TraceFact) {
  const code = printable(fact.code);
  return {
    side: printable(fact.side),
    name: printable(fact.name),
    outcome: OUTCOMES[fact.outcome],
    expected: printable(fact.expected),
    actual: printable(fact.actual),
    // Checks from the audit log have a code and no fix.
    fix: printable(fact.fix) || (fixOfCode(code) ?? ''),
    code,
    timeMs: Number(fact.timeMs),
  };
}
