import { formatDuration } from '../../../internal/clock/index.ts';
import type { ExitName } from '../../../internal/errors/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { writeOutput } from '../../app/output-file.ts';
import {
  comparison,
  isFirstNode,
  needsFix,
  readTrace,
  traceVerdict,
  type FactView,
  type Trace,
} from './join-trace.ts';

const SYMBOLS: Readonly<Record<FactView['outcome'], string>> = {
  pass: '✓',
  warn: '!',
  fail: '✗',
  wait: '…',
  unknown: '?',
};

/** Flags of `cluster explain`. */
export interface ExplainOptions {
  /** Write the trace as a page to this file instead of the terminal; true: to "explain-NODE.html" in the present directory. */
  readonly html?: string | true;
}

/**
 * `cluster explain`: how a machine joined, or why it could not, as recorded by the machine and by control
 * planes. If its evidence was refused, only its address is on record. Exits `unhealthy` if a failed check
 * prevents it from joining.
 */
export async function runExplainJoin(
  context: CommandContext,
  subject: string,
  { html }: ExplainOptions = {},
): Promise<ExitName> {
  const trace = await readTrace(context, subject);
  const { joinId, nodeName, join, facts } = trace;
  const nowMs = context.ports.clock.nowMs();
  if (html === undefined)
    context.host.result({ joinId, nodeName, join, facts }, () => renderTrace(trace, nowMs));
  else await writeTracePage(context, trace, html);
  const isIn = join === undefined ? nodeName !== '' : join.state === 'joined';
  return !isIn && facts.some(({ outcome }) => outcome === 'fail') ? 'unhealthy' : 'ok';
}

async function writeTracePage(
  { host, ports }: CommandContext,
  trace: Trace,
  to: string | true,
): Promise<void> {
  const { isTracePage, tracePage } = await import('./trace-page.ts');
  const name = (trace.nodeName || trace.subject).replace(/[^A-Za-z0-9.-]+/g, '-').slice(0, 64);
  const path = to === true ? `explain-${name}.html` : to;
  // A page shows the trace of one moment: it replaces the earlier page, which shows the beginning of the same trace.
  const file = { path, isEarlier: isTracePage };
  await writeOutput(ports.files, file, tracePage(trace, ports.clock.nowMs()));
  host.result({ path, ...trace }, () => `Wrote ${path}.`);
}

/** The checks of a join as text. Times are relative to `nowMs`. */
export function renderTrace(trace: Omit<Trace, 'joinId'>, nowMs: number): string {
  const { subject, nodeName, facts } = trace;
  const lines = facts.flatMap((fact) => [
    `${SYMBOLS[fact.outcome]} ${fact.side.padEnd(8)} ${fact.name.padEnd(14)} ${comparison(fact)}  ${formatDuration(nowMs - fact.timeMs)} ago`.trimEnd(),
    ...(fact.code === '' ? [] : [`    code  ${fact.code}`]),
    ...(needsFix(fact) ? [`    fix   ${fact.fix}`] : []),
  ]);
  return [
    `${nodeName || subject}: ${traceVerdict(trace)}`,
    ...(lines.length > 0 || isFirstNode(trace)
      ? lines.map((line) => `  ${line}`)
      : ['  nothing checked yet']),
  ].join('\n');
}
