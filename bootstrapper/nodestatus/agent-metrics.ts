import { processMetrics, type MetricFamily, type ProcessUsage } from '../../internal/metrics/index.ts';
import type { TreeSnapshot } from '../../internal/supervisor/index.ts';
import type { ApiServerHealth } from '../kubernetes/index.ts';

/** Inputs of `agentMetrics()`. */
export interface AgentMetricsInput {
  readonly version: string;
  readonly usage: ProcessUsage;
  readonly tree: TreeSnapshot;
  readonly certificates: readonly { readonly name: string; readonly notAfterMs: number }[];
  /** Health of the API servers as the balancer reports it; empty when no balancer runs. */
  readonly servers: readonly ApiServerHealth[];
  readonly nowMs: number;
}

/** Metrics of the agent: its process, its runnables, its certificates, and the balancer. Pure. */
export function agentMetrics(input: AgentMetricsInput): readonly MetricFamily[] {
  const { version, usage, tree, certificates, servers, nowMs } = input;
  return [
    ...processMetrics({ program: 'agent', version }, usage),
    {
      name: 'cluster_agent_runnable_state',
      help: 'Runnables of the agent by path; 1 for the current state.',
      kind: 'gauge',
      samples: tree.map(({ path, state }) => ({ labels: { path, state }, value: 1 })),
    },
    {
      name: 'cluster_agent_runnable_restarts_total',
      help: 'Restarts of each runnable.',
      kind: 'counter',
      samples: tree.map(({ path, restarts }) => ({ labels: { path }, value: restarts })),
    },
    {
      name: 'cluster_certificate_expiry_seconds',
      help: 'Seconds until the certificate expires; negative afterwards.',
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
      help: 'Health of each API server as the balancer of this node sees it: 1 for healthy, unready, silent or unknown.',
      kind: 'gauge',
      samples: servers.map(({ server, verdict }) => ({ labels: { server, verdict }, value: 1 })),
    },
    {
      name: 'cluster_balancer_upstream_connections',
      help: 'Connections that the balancer of this node forwards to each API server.',
      kind: 'gauge',
      samples: servers.map(({ server, connections }) => ({ labels: { server }, value: connections })),
    },
  ];
}
