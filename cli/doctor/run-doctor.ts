import { z } from 'zod';
import { formatDuration } from '../../internal/clock/index.ts';
import {
  diagnose,
  DoctorError,
  encodeFacts,
  endingsUntil,
  MAX_FACTS_BYTES,
  nodeRoundTrips,
  notCheckedIn,
  parseFacts,
  problemsFrom,
  type ClusterFacts,
  type Finding,
} from '../../internal/doctor/index.ts';
import type { ExitName } from '../../internal/errors/index.ts';
import { parseJson } from '../../internal/file/index.ts';
import { printable } from '../../internal/printable/index.ts';
import type { CommandContext } from '../app/command.ts';
import { AppError } from '../app/errors.ts';
import { checkOutput, writeOutput } from '../app/output-file.ts';
import { watchResult } from '../cluster/index.ts';
import { formatTable } from '../host/index.ts';
import type { CollectOptions } from './ask-metrics.ts';
import { collectFacts } from './collect-facts.ts';
import { countGrades, renderFindings, renderProblems, type GradeCounts } from './render-findings.ts';

/** Long enough for some writes to etcd. */
const WINDOW_MS = 5_000;
/** Between two rounds of `--watch`: each reads the metrics of every node twice. */
const WATCH_EVERY_MS = 30_000;

/** Flags of `cluster doctor`. */
export interface DoctorOptions {
  /** Judge the facts in this file instead of collecting them. */
  readonly facts?: string;
  /** Show what ends within this many ms instead of the findings. */
  readonly at?: number;
  /** Write the collected facts to this file. */
  readonly saveFacts?: string;
  /** Judge again and again, and show the problems. */
  readonly watch?: true;
  /** Time between two readings of the metrics; only tests set it. */
  readonly windowMs?: number;
}

/**
 * `cluster doctor --watch`: judges every half minute until it is interrupted. A terminal shows the problems of the moment; elsewhere there
 * is a result whenever a problem appears or ends.
 * @throws as `runDoctor()`
 */
export async function watchDoctor(
  context: CommandContext,
  { windowMs = WINDOW_MS, saveFacts, facts: path, at }: DoctorOptions,
  nodes: readonly string[],
): Promise<never> {
  if (path !== undefined || at !== undefined || saveFacts !== undefined)
    throw new AppError('app-usage', '--watch cannot be combined with --facts, --save-facts or --at');
  let last: readonly Finding[] | undefined;
  const show = async (): Promise<void> => {
    const facts = await collectFacts(context, { nodes, windowMs });
    checkNames(facts, nodes);
    const findings = diagnose(facts, nodes);
    const problems = problemsFrom(findings);
    const [appeared, ended] = [without(problems, last ?? []), without(last ?? [], problems)];
    const isChanged = last === undefined || appeared.length + ended.length > 0;
    last = problems;
    if (!isChanged && !context.host.interactive) return;
    const counts = countGrades(findings);
    const { clusterName: name, clusterId, takenMs } = facts;
    const view = { name, clusterId, takenMs, verdict: verdictOf(counts), counts, problems, appeared, ended };
    context.host.result(view, () => renderProblems(titleOf(facts), { findings, ended }));
  };
  return watchResult(context, show, WATCH_EVERY_MS);
}

/** Findings that are not in `others`. Findings that differ only in their figure count as the same problem. */
function without(findings: readonly Finding[], others: readonly Finding[]): readonly Finding[] {
  const known = new Set(others.map(keyOf));
  return findings.filter((each) => !known.has(keyOf(each)));
}

function keyOf({ code, subject, grade }: Finding): string {
  return `${code} ${grade} ${subject}`;
}

/**
 * `cluster doctor`. Returns `unhealthy` when a check has found an error, and `warnings` when the worst finding is a warning or
 * something that could not be measured. With `at` see `reportEndings()`.
 * @param nodes only findings about these nodes and about the whole cluster; empty: all
 * @throws DoctorError `doctor-facts-missing`, `doctor-node-unknown` and those of `parseFacts()`; ClusterError; AppError `app-file-exists`
 */
export async function runDoctor(
  context: CommandContext,
  { facts: path, saveFacts, at, windowMs = WINDOW_MS }: DoctorOptions,
  nodes: readonly string[],
): Promise<ExitName> {
  const { files } = context.ports;
  // Facts are of one moment: a timer writes those of the next one to the same file.
  const saved = saveFacts === undefined ? undefined : { path: saveFacts, isEarlier: isFacts };
  if (saved !== undefined) await checkOutput(files, saved);
  const facts =
    path === undefined ? await collect(context, { nodes, windowMs }) : await readFacts(context, path);
  if (saved !== undefined) await writeOutput(files, saved, encodeFacts(facts));
  if (at !== undefined) return reportEndings(context, facts, at);
  checkNames(facts, nodes);
  const { view, text, verdict } = judgeFacts(facts, nodes);
  context.host.result(view, () => text);
  return verdict;
}

/**
 * What ends within a time. @returns `warnings` when a person has to renew some of it, or when something is not known that time alone does
 * not make known
 */
function reportEndings({ host }: CommandContext, facts: ClusterFacts, withinMs: number): ExitName {
  const untilMs = facts.takenMs + withinMs;
  const { endings, unknown } = endingsUntil(facts, untilMs);
  const { clusterName: name, clusterId, takenMs } = facts;
  host.result({ name, clusterId, takenMs, untilMs, endings, unknown }, () =>
    [
      `Ends before ${new Date(untilMs).toISOString().slice(0, 10)} if nobody does anything:`,
      '',
      formatTable(
        ['ENDS', 'IN', 'WHAT', 'PREVENTED BY'],
        endings.map(({ endsMs, subject, renewal, figure }) => [
          `${new Date(endsMs).toISOString().slice(0, 19)}Z`,
          endsMs > takenMs ? formatDuration(endsMs - takenMs) : 'ended',
          printable(figure === undefined ? subject : `${subject} (${figure})`),
          renewal,
        ]),
      ),
      // Many disks are not known for the same reason: on a new cluster, all of them.
      ...[...Map.groupBy(unknown, ({ error }) => error)].map(([error, of]) =>
        printable(`Not known: ${of.map(({ subject }) => subject).join(', ')} (${error})`),
      ),
    ].join('\n'),
  );
  const isUnknown = unknown.some(({ isTooEarly }) => isTooEarly !== true);
  return isUnknown || endings.some(({ renewsItself }) => !renewsItself) ? 'warnings' : 'ok';
}

/** What the doctor says about facts. */
interface Judgement {
  /** For programs. */
  readonly view: Readonly<Record<string, unknown>>;
  /** For people. */
  readonly text: string;
  readonly verdict: ExitName;
}

/** Judges facts, wherever they come from. @param nodes only findings about these nodes and the whole cluster; empty: all */
export function judgeFacts(facts: ClusterFacts, nodes: readonly string[]): Judgement {
  const findings = diagnose(facts, nodes);
  const counts = countGrades(findings);
  const { clusterName: name, clusterId, takenMs } = facts;
  const verdict = verdictOf(counts);
  const problems = problemsFrom(findings);
  const notChecked = notCheckedIn(facts);
  const roundTrips = nodeRoundTrips(facts).filter(
    ({ from, to }) => nodes.length === 0 || nodes.includes(from) || nodes.includes(to),
  );
  return {
    view: { name, clusterId, takenMs, verdict, counts, problems, findings, roundTrips, notChecked },
    text: renderFindings(titleOf(facts), findings, notChecked),
    verdict,
  };
}

function titleOf({ clusterName, clusterId, takenMs }: ClusterFacts): string {
  return printable(`Cluster ${clusterName}  ${clusterId}  ${new Date(takenMs).toISOString().slice(0, 19)}Z`);
}

function collect(context: CommandContext, options: CollectOptions): Promise<ClusterFacts> {
  return context.host.step('doctor-collect', 'Collecting facts', () => collectFacts(context, options));
}

async function readFacts({ ports }: CommandContext, path: string): Promise<ClusterFacts> {
  const bytes = await ports.files.read(path, MAX_FACTS_BYTES);
  if (bytes === undefined) throw new DoctorError('doctor-facts-missing', `reading facts: ${path} not found`);
  return parseFacts(bytes);
}

/** Whether a text is facts of this or another version, as far as its head tells. */
function isFacts(text: string): boolean {
  const head = z.looseObject({ version: z.int(), takenMs: z.number(), clusterId: z.string() });
  return head.safeParse(parseJson(text)).success;
}

function checkNames({ records }: ClusterFacts, nodes: readonly string[]): void {
  if (!records.ok) return; // no curator has listed the nodes, so their names are unknown
  const known = new Set(records.value.nodes.map(({ name }) => name));
  const unknown = nodes.find((name) => !known.has(name));
  if (unknown !== undefined)
    throw new DoctorError('doctor-node-unknown', `node ${JSON.stringify(unknown)} not found`);
}

function verdictOf({ error, warning, unknown }: GradeCounts): ExitName {
  if (error > 0) return 'unhealthy';
  return warning + unknown > 0 ? 'warnings' : 'ok';
}
