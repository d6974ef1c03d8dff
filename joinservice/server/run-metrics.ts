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

/** The port and the facts with which this program serves metrics about itself. */
export interface MetricsOptions {
  readonly port: number;
  readonly version: string;
  readonly usage: () => ProcessUsage;
}

/** The sources of the curator's metrics. */
export interface CuratorMetricSources {
  readonly nodes: Pick<NodeFeed, 'all'>;
  readonly sessions: Pick<NodeSessions, 'count'>;
  readonly certificates: readonly { readonly name: string; readonly notAfterMs: number }[];
  readonly clock: Clock;
}

/** Serves metrics until the signal fires. */
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

/** Metrics of the curator: nodes by state and health, open sessions, remaining validity of certificates. */
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
      help: 'Recorded nodes, by state and health.',
      kind: 'gauge',
      samples: [...nodes].map(([key, value]) => {
        const [state = '', health = ''] = key.split(' ');
        return { labels: { state, health }, value };
      }),
    },
    {
      name: 'cluster_curator_attending_nodes',
      help: 'Nodes with a session to this curator.',
      kind: 'gauge',
      samples: [{ value: counts.sessions.count }],
    },
    {
      name: 'cluster_curator_certificate_expires_seconds',
      help: 'Time until the certificate expires; negative afterwards.',
      kind: 'gauge',
      samples: counts.certificates.map(({ name, notAfterMs }) => ({
        labels: { name },
        value: Math.round((notAfterMs - nowMs) / 1000),
      })),
    },
  ];
}
