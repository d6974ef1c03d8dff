import type { Clock } from '../../internal/clock/index.ts';
import {
  processMetrics,
  renderMetrics,
  serveMetrics,
  type MetricFamily,
  type ProcessUsage,
} from '../../internal/metrics/index.ts';
import { NodeHealth } from '../curatorproto/gen/curator_pb.js';
import { healthOf, type NodeFeed } from '../curator/index.ts';
import type { NodeSessions } from '../streams/index.ts';

/** Where this program tells what it counts. */
export interface MetricsOptions {
  readonly port: number;
  readonly version: string;
  readonly usage: () => ProcessUsage;
}

export interface CuratorMetricSources {
  readonly nodes: Pick<NodeFeed, 'all'>;
  readonly sessions: Pick<NodeSessions, 'count'>;
  readonly certificates: readonly { readonly name: string; readonly notAfterMs: number }[];
  readonly clock: Clock;
}

export async function runMetrics(
  { port, version, usage }: MetricsOptions,
  counts: CuratorMetricSources,
  signal: AbortSignal,
): Promise<void> {
  const render = (): string =>
    renderMetrics([
      ...processMetrics({ program: 'joinservice', version }, usage()),
      ...curatorMetrics(counts),
    ]);
  await serveMetrics({ port, render }, signal);
}

/** What the curator counts: nodes by state and health, who attends here, how long its certificates live. */
export function curatorMetrics(counts: CuratorMetricSources): readonly MetricFamily[] {
  const nodes = new Map<string, number>();
  for (const view of counts.nodes.all()) {
    const key = `${view.record.state} ${NodeHealth[healthOf(view)]}`;
    nodes.set(key, (nodes.get(key) ?? 0) + 1);
  }
  const nowMs = counts.clock.nowMs();
  return [
    {
      name: 'cluster_curator_nodes',
      help: 'Nodes on record, by state and health.',
      kind: 'gauge',
      samples: [...nodes].map(([key, value]) => {
        const [state = '', health = ''] = key.split(' ');
        return { labels: { state, health }, value };
      }),
    },
    {
      name: 'cluster_curator_attending_nodes',
      help: 'Nodes that hold a stream open to this curator.',
      kind: 'gauge',
      samples: [{ value: counts.sessions.count }],
    },
    {
      name: 'cluster_curator_certificate_expires_seconds',
      help: 'Until the certificate has run out; negative afterwards.',
      kind: 'gauge',
      samples: counts.certificates.map(({ name, notAfterMs }) => ({
        labels: { name },
        value: Math.round((notAfterMs - nowMs) / 1000),
      })),
    },
  ];
}
