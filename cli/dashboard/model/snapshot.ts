import { formatDuration } from '../../../internal/clock/index.ts';
import type { AuditRecord } from '../../../internal/records/index.ts';
import { curatorLines, problemsOf, quorumFrom, type CuratorPart } from '../../cluster/index.ts';
import { detailText } from '../../audit/index.ts';
import { counted, printable } from '../../../internal/printable/index.ts';
import { joinRow, memberRow, type NodeRow, type Tone } from './node-row.ts';
import type { History, Observations, Reading } from './observations.ts';

/** A decision of the audit log, as both views show it. */
export interface Decision {
  readonly seq: number;
  readonly timeMs: number;
  readonly caller: string;
  readonly method: string;
  readonly subject: string;
  readonly detail: string;
}

/** A certificate on the time line. */
export interface CertificateRow {
  readonly node: string;
  readonly name: string;
  readonly notAfterMs: number;
}

/** A source that fails. */
export interface FailingSource {
  readonly source: string;
  readonly text: string;
  readonly sinceMs: number;
  readonly isRefused: boolean;
  readonly isQuorumLost?: boolean;
  /** When its last value was read, which is still shown; undefined if nothing is shown. */
  readonly readMs: number | undefined;
}

/** The cluster at one moment, judged: all that the terminal and the page show. */
export interface Snapshot {
  readonly takenMs: number;
  readonly name: string;
  readonly clusterId: string;
  /** The caller and its role; empty until they are known. */
  readonly you: { readonly name: string; readonly role: string };
  readonly tone: Tone;
  /** "healthy", "3 problems", "reading …" */
  readonly verdict: string;
  /** Label and text of each line of `cluster status`. */
  readonly summary: readonly (readonly [string, string])[];
  readonly problems: readonly string[];
  readonly failing: readonly FailingSource[];
  readonly nodes: readonly NodeRow[];
  /** By their end. */
  readonly certificates: readonly CertificateRow[];
  /** Newest first; undefined until they are known. */
  readonly decisions: readonly Decision[] | undefined;
  readonly history: History;
}

/** Judges what the sources have told. Pure, and the only place that judges. */
export function judge(seen: Observations, nowMs: number): Snapshot {
  const curator = curatorPart(seen);
  const kubernetes = seen.kubernetes?.value;
  const problems = curator === undefined ? [] : problemsOf(curator, kubernetes, nowMs);
  const failing = failingSources(seen);
  const nodes = nodeRows(seen, nowMs);
  return {
    takenMs: nowMs,
    name: curator?.name ?? '',
    clusterId: seen.clusterId,
    you: { name: seen.cluster.value?.caller ?? '', role: seen.cluster.value?.role ?? '' },
    ...verdictOf(curator, problems, failing),
    summary: curator === undefined ? [] : curatorLines({ ok: true, value: curator }, nowMs),
    problems,
    failing,
    nodes,
    certificates: nodes
      .flatMap(({ name: node, certificates }) =>
        certificates.map(({ name, notAfterMs }) => ({ node, name: shortName(name), notAfterMs })),
      )
      .toSorted((a, b) => a.notAfterMs - b.notAfterMs),
    decisions: seen.decisions.value?.map(decisionFrom).toReversed(),
    history: seen.history,
  };
}

/** Agents name certificates by their path, whose end tells them apart in a narrow column. */
function shortName(path: string): string {
  return path.replace(/^\/var\/lib\/cluster\//, '');
}

/** The part of the status that curators tell; undefined until both of its sources have told something. */
function curatorPart({ cluster, nodes, kubernetesEtcd }: Observations): CuratorPart | undefined {
  if (cluster.value === undefined || nodes.value === undefined) return undefined;
  const quorum = quorumFrom(cluster.value.etcd, nodes.value);
  return { ...cluster.value, kubernetesEtcd, quorum, nodes: nodes.value };
}

function failingSources(seen: Observations): readonly FailingSource[] {
  const sources: readonly (readonly [string, Reading<unknown> | undefined])[] = [
    ['cluster', seen.cluster],
    ['nodes', seen.nodes],
    ['join requests', seen.joins],
    ['decisions', seen.decisions],
    ['metrics', seen.usage],
    ['kubernetes', seen.kubernetes],
  ];
  return sources.flatMap(([source, reading]) =>
    reading?.failure === undefined ? [] : [{ source, ...reading.failure, readMs: reading.readMs }],
  );
}

function nodeRows({ nodes, joins, usage, cluster }: Observations, nowMs: number): readonly NodeRow[] {
  const awaited = new Map(cluster.value?.keys?.awaited.map(({ name, why }) => [name, why]));
  const members = (nodes.value ?? []).map((node) =>
    memberRow(node, { usage: usage.value?.get(node.name), awaited: awaited.get(node.name) }, nowMs),
  );
  const known = new Set(members.map(({ id }) => id));
  const applicants = (joins.value ?? []).flatMap((join) =>
    known.has(join.joinId) ? [] : (joinRow(join) ?? []),
  );
  return [...members, ...applicants];
}

function verdictOf(
  curator: CuratorPart | undefined,
  problems: readonly string[],
  failing: readonly FailingSource[],
): { readonly tone: Tone; readonly verdict: string } {
  const broken = failing.filter(({ isRefused }) => !isRefused);
  const isStale = broken.some(({ source }) => source === 'cluster' || source === 'nodes');
  if (isStale) {
    const what = broken.some(({ isQuorumLost }) => isQuorumLost === true) ? 'quorum lost' : 'not reached';
    return { tone: 'bad', verdict: curator === undefined ? what : `${what}: old data` };
  }
  if (curator === undefined)
    return failing.length > 0 ? { tone: 'bad', verdict: 'refused' } : { tone: 'idle', verdict: 'reading' };
  const count = problems.length;
  if (count > 0) return { tone: 'bad', verdict: counted(count, 'problem') };
  if (broken.length > 0) return { tone: 'warning', verdict: 'healthy, but not all sources answer' };
  return { tone: 'good', verdict: 'healthy' };
}

function decisionFrom({ seq, timeMs, caller, method, subject, detail }: AuditRecord): Decision {
  const texts = { caller: printable(caller), method: printable(method), subject: printable(subject) };
  return { seq, timeMs, ...texts, detail: detailText(detail) };
}

/** Why a source is not current: what is refused to the role of the caller, or since when it fails and how old its data are. */
export function failureText(
  { source, text, sinceMs, isRefused, readMs }: FailingSource,
  nowMs: number,
): string {
  if (isRefused) return `${source}: not for your role (${text})`;
  const age = readMs === undefined ? 'nothing read yet' : `data of ${formatDuration(nowMs - readMs)} ago`;
  return `${source}: failing for ${formatDuration(nowMs - sinceMs)}, ${age}: ${text}`;
}
