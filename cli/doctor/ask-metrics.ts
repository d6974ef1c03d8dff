import { mapConcurrently } from '../../internal/cleanup/index.ts';
import type { ClusterFacts, RecordFacts } from '../../internal/doctor/index.ts';
import type { CommandContext } from '../app/command.ts';
import { callCurator, readPart } from '../cluster/index.ts';
import { AT_ONCE, type ControlPlane } from './ask-curators.ts';
import { metricsFrom } from './parse-metrics.ts';
import { plain } from './read-records.ts';
import { hasSlowFsyncs, withFasterFsyncs } from './slow-fsyncs.ts';

const METRICS_MS = 15_000;

/** What to collect. */
export interface CollectOptions {
  /** The nodes to ask for their own facts, besides control planes; empty: all. */
  readonly nodes: readonly string[];
  /** Time between two readings of the metrics. */
  readonly windowMs: number;
}

/** Which nodes to ask, and through which curators. */
interface Measured extends CollectOptions {
  readonly found: { readonly records: Pick<RecordFacts, 'nodes'> } | undefined;
  readonly serving: readonly ControlPlane[];
}

/**
 * The metrics of each node: two readings, because the checks judge only the fsyncs between them. If some were slow, they are measured again:
 * another program may have kept the disk busy for a moment.
 */
export async function measure(context: CommandContext, of: Measured): Promise<ClusterFacts['metrics']> {
  const before = await askMetrics(context, of);
  if (before.length === 0) return [];
  const after = await askLater(context, of);
  const measured = metricsBetween(before, after);
  if (!measured.some(({ answer }) => answer.ok && hasSlowFsyncs(answer.value))) return measured;
  const again = new Map(
    metricsBetween(after, await askLater(context, of)).map(({ node, answer }) => [node, answer]),
  );
  return measured.map(({ node, answer }) => {
    const second = again.get(node);
    const isBoth = answer.ok && second?.ok === true;
    return {
      node,
      answer: isBoth ? { ok: true, value: withFasterFsyncs(answer.value, second.value) } : answer,
    };
  });
}

/** The metrics of each node, read once: without figures of the fsyncs. */
export async function measureOnce(
  context: CommandContext,
  of: Omit<Measured, 'windowMs'>,
): Promise<ClusterFacts['metrics']> {
  return (await askMetrics(context, of)).map(({ node, answer }) => ({
    node,
    answer: answer.ok ? { ok: true, value: metricsFrom(answer.value) } : answer,
  }));
}

type Pages = Awaited<ReturnType<typeof askMetrics>>;

async function askLater(context: CommandContext, of: Measured): Promise<Pages> {
  await context.ports.clock.sleep(of.windowMs, context.signal);
  return askMetrics(context, of);
}

function metricsBetween(before: Pages, after: Pages): ClusterFacts['metrics'] {
  const pages = new Map(before.map(({ node, answer }) => [node, answer.ok ? answer.value : '']));
  return after.map(({ node, answer }) => ({
    node,
    answer: answer.ok ? { ok: true, value: metricsFrom(answer.value, pages.get(node)) } : answer,
  }));
}

/** The metrics of each node as text, through a curator that serves. */
async function askMetrics(context: CommandContext, { found, serving, nodes }: Omit<Measured, 'windowMs'>) {
  // Control planes are always included: without their metrics nothing is known about etcd as a whole.
  const members = (found?.records.nodes ?? []).filter(
    ({ state, name, isControlPlane }) => state === 'up' && (isControlPlane || isWanted(nodes, name)),
  );
  const only = serving.map(({ endpoint }) => endpoint);
  return mapConcurrently(members, AT_ONCE, async ({ name: node }) => ({
    node,
    answer: plain(
      await readPart(context, async () => {
        const limits = { timeoutMs: METRICS_MS };
        const { text } = await callCurator(
          context,
          ({ nodeStreams }) => nodeStreams.getMetrics({ node }, limits),
          { only },
        );
        return text;
      }),
    ),
  }));
}

/** Whether a node is one of those to ask. @param nodes names; empty: all */
export function isWanted(nodes: readonly string[], name: string): boolean {
  return nodes.length === 0 || nodes.includes(name);
}
