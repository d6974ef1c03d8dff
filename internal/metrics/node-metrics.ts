import { PORTS } from '../endpoint/index.ts';
import { mergeMetrics, type MetricsPage } from './merge-metrics.ts';
import { renderMetrics } from './render-metrics.ts';
import type { Page } from './serve-metrics.ts';

const ETCDS = { state: PORTS.stateEtcd.metrics, kubernetes: PORTS.kubernetesEtcd.metrics } as const;
/** The alarms of etcd: the response of its health check contains the name of an active one. */
const ALARMS = ['NOSPACE', 'CORRUPT'] as const;

/** The programs whose metrics are read on this node, and how to read them. */
export interface NodeMetricsOptions {
  /** The agent's own metrics; undefined when it does not respond. */
  readonly agent: () => Promise<string | undefined>;
  /** Whether this node runs a join service and etcd. */
  readonly isControlPlane: boolean;
  /** Reads from a program on this machine; undefined when it does not respond. */
  readonly read: (url: string) => Promise<Page | undefined>;
}

/**
 * The metrics of every program on this node that responds, and one metric per program that tells whether it responds.
 */
export async function renderNodeMetrics({
  agent,
  isControlPlane,
  read,
}: NodeMetricsOptions): Promise<string> {
  const [own, kubelet, joinservice, members] = await Promise.all([
    agent(),
    read(`http://127.0.0.1:${PORTS.kubeletHealth}/healthz`),
    isControlPlane ? read(`http://127.0.0.1:${PORTS.joinserviceMetrics}/metrics`) : undefined,
    Promise.all(
      (isControlPlane ? Object.entries(ETCDS) : []).map(([etcd, port]) => readMember(etcd, port, read)),
    ),
  ]);
  const up = [
    { labels: { program: 'agent' }, isUp: own !== undefined },
    { labels: { program: 'kubelet' }, isUp: kubelet?.ok === true },
    ...(isControlPlane ? [{ labels: { program: 'joinservice' }, isUp: joinservice?.ok === true }] : []),
    ...members.map(({ labels, page }) => ({
      labels: { program: 'etcd', ...labels },
      isUp: page !== undefined,
    })),
  ];
  const families = renderMetrics([
    {
      name: 'cluster_program_up',
      help: 'Whether a program that this node needs responds.',
      kind: 'gauge',
      samples: up.map(({ labels, isUp }) => ({ labels, value: Number(isUp) })),
    },
    {
      name: 'cluster_etcd_alarm',
      help: 'Whether an alarm of etcd is active: NOSPACE when its quota is used up, CORRUPT when its members differ.',
      kind: 'gauge',
      samples: members.flatMap(({ labels, health }) =>
        health === undefined
          ? []
          : ALARMS.map((alarm) => ({ labels: { ...labels, alarm }, value: Number(health.includes(alarm)) })),
      ),
    },
  ]);
  const programs = [own, joinservice?.ok === true ? joinservice.text : undefined, families];
  return mergeMetrics([...programs.map((page) => ({ labels: {}, page })), ...members]);
}

interface Member extends MetricsPage {
  /** The response of its health check; undefined when the member does not respond. */
  readonly health: string | undefined;
}

async function readMember(etcd: string, port: number, read: NodeMetricsOptions['read']): Promise<Member> {
  const base = `http://127.0.0.1:${port}`;
  // A serializable health check needs no quorum, so a member responds even when etcd has no quorum.
  const [metrics, health] = await Promise.all([
    read(`${base}/metrics`),
    read(`${base}/health?serializable=true`),
  ]);
  const page = metrics?.ok === true ? metrics.text : undefined;
  return { labels: { etcd }, page, health: health?.text };
}
