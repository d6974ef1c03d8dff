import { processMetrics, type MetricFamily, type ProcessUsage } from '../../internal/metrics/index.ts';
import type { TreeSnapshot } from '../../internal/supervisor/index.ts';
import type { ApiServerHealth } from '../kubernetes/index.ts';

export interface AgentMetricsInput {
  readonly version: string;
  readonly usage: ProcessUsage;
  readonly tree: TreeSnapshot;
  readonly certificates: readonly { readonly name: string; readonly notAfterMs: number }[];
  /** The API servers as this node's balancer finds them; empty where none runs. */
  readonly servers: readonly ApiServerHealth[];
  readonly nowMs: number;
}

/** What the agent counts: itself, everything it runs, and how long each certificate on this node lives. */
export function agentMetrics(input: AgentMetricsInput): readonly MetricFamily[] {
  const { version, usage, tree, certificates, servers, nowMs } = input;
  return [
    ...processMetrics({ program: 'agent', version }, usage),
    {
      name: 'cluster_agent_runnable_state',
      help: 'What the agent runs, by path: 1 for the state that it is in.',
      kind: 'gauge',
      samples: tree.map(({ path, state }) => ({ labels: { path, state }, value: 1 })),
    },
    {
      name: 'cluster_agent_runnable_restarts_total',
      help: 'How often each runnable was started again.',
      kind: 'counter',
      samples: tree.map(({ path, restarts }) => ({ labels: { path }, value: restarts })),
    },
    {
      name: 'cluster_certificate_expiry_seconds',
      help: 'Until the certificate has run out; negative afterwards.',
      kind: 'gauge',
      samples: certificates.map(({ name, notAfterMs }) => ({
        labels: { certificate: name },
        value: Math.round((notAfterMs - nowMs) / 1000),
      })),
    },
    ...balancerMetrics(servers),
  ];
}

function balancerMetrics(servers: readonly ApiServerHealth[]): readonly MetricFamily[] {
  return [
    {
      name: 'cluster_balancer_upstream_verdict',
      help: 'How the balancer of this node finds each API server: 1 for healthy, unready, silent or unknown.',
      kind: 'gauge',
      samples: servers.map(({ server, verdict }) => ({ labels: { server, verdict }, value: 1 })),
    },
    {
      name: 'cluster_balancer_upstream_connections',
      help: 'Connections that the balancer of this node passes on to each API server.',
      kind: 'gauge',
      samples: servers.map(({ server, connections }) => ({ labels: { server }, value: connections })),
    },
  ];
}
