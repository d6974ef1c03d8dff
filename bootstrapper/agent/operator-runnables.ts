import { PORTS } from '../../internal/endpoint/index.ts';
import { mergeMetrics, readMetrics, renderMetrics, serveMetrics } from '../../internal/metrics/index.ts';
import type { Runnable } from '../../internal/supervisor/index.ts';
import { ETCD_NAMES, ETCD_PORTS } from '../consensus/index.ts';
import { APILB_HEALTH_SOCKET, readBalancerHealth } from '../kubernetes/index.ts';
import type { Membership } from '../membership/index.ts';
import { agentMetrics, listCertificateExpiries } from '../nodestatus/index.ts';
import { nodeStreamWorker, type TaskPorts } from '../nodestream/index.ts';
import { createRemovalProbeTask } from './removal-probe-task.ts';
import type { Wiring } from './wiring.ts';

/**
 * The runnables that answer requests of operators to this node: logs, evidence, metrics, a removal probe, a
 * reset.
 */
export function operatorRunnables(wiring: Wiring): Readonly<Record<string, Runnable>> {
  const { node, version } = wiring;
  return {
    nodestream: nodeStreamWorker({
      reads: node.values,
      curators: node.cluster.curators,
      agentVersion: version,
      portsOf: (membership) => taskPorts(wiring, membership),
    }),
    metrics: async (scope) => {
      scope.healthy();
      await serveMetrics({ port: PORTS.agentMetrics, render: () => renderOwn(wiring) }, scope.signal);
    },
  };
}

/** Metrics of the agent itself. */
async function renderOwn({ ports, version, tree }: Wiring): Promise<string> {
  const { clock, files } = ports;
  const signal = new AbortController().signal;
  const [certificates, servers] = await Promise.all([
    listCertificateExpiries(files),
    readBalancerHealth(APILB_HEALTH_SOCKET, { clock, signal }).catch(() => []), // no balancer runs or responds
  ]);
  return renderMetrics(
    agentMetrics({
      ...{ version, certificates, servers },
      usage: ports.usage(),
      tree: tree(),
      nowMs: clock.nowMs(),
    }),
  );
}

/** Metrics of every program on this node that responds. */
async function renderNode(wiring: Wiring, signal: AbortSignal): Promise<string> {
  const { clock } = wiring.ports;
  const read = (port: number): Promise<string | undefined> =>
    readMetrics(`http://127.0.0.1:${port}/metrics`, { clock, signal });
  const joinservice = await read(PORTS.joinserviceMetrics);
  const etcd = await Promise.all(
    ETCD_NAMES.map(async (name) => ({ labels: { etcd: name }, page: await read(ETCD_PORTS[name].metrics) })),
  );
  return [await renderOwn(wiring), joinservice ?? '', mergeMetrics(etcd)].join('');
}

function taskPorts(wiring: Wiring, { clusterId, nodeId, nodeName }: Membership): TaskPorts {
  const { ports, node, driver } = wiring;
  const { files, clock, log, ring, commands } = ports;
  const { evidence } = node.machine;
  return {
    ...{ ring, commands },
    evidence: {
      variant: evidence.variant,
      make: (nonce, signal) => evidence.forVerify({ clusterId, nodeId, nonce }, signal),
    },
    reset: (order) => node.orders.reset.accept(clusterId, order),
    probe: createRemovalProbeTask({
      ...{ files, nodeName, clusterId, clock, log: log.child('removal-probe') },
      etcd: () => driver.etcdMembers(),
    }),
    metrics: (signal) => renderNode(wiring, signal),
  };
}
