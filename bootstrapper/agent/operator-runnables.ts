import { PORTS } from '../../internal/endpoint/index.ts';
import { mergeMetrics, readMetrics, renderMetrics, serveMetrics } from '../../internal/metrics/index.ts';
import type { Runnable, TreeSnapshot } from '../../internal/supervisor/index.ts';
import { nodeStreamWorker, type TaskPorts } from '../nodestream/index.ts';
import { ETCD_NAMES, ETCD_PORTS } from '../consensus/index.ts';
import type { Membership } from '../membership/index.ts';
import { APILB_HEALTH_SOCKET, readBalancerHealth } from '../kubernetes/index.ts';
import type { EtcdMembers } from '../controlplane/index.ts';
import { agentMetrics, listCertificateExpiries } from '../nodestatus/index.ts';
import type { AgentPorts } from './agent-ports.ts';
import { createRemovalProbeTask } from './removal-probe.ts';
import type { OpenNode } from './open-node.ts';

export interface OperatorRunnablesOptions {
  readonly ports: AgentPorts;
  readonly node: Pick<OpenNode, 'values' | 'curators' | 'evidence' | 'resetOrders'>;
  readonly version: string;
  readonly tree: () => TreeSnapshot;
  /** The local members of etcd as their root, while there are any. */
  readonly etcd: () => EtcdMembers | undefined;
}

/** What operators see of this node, beside its status. */
export function operatorRunnables(options: OperatorRunnablesOptions): Readonly<Record<string, Runnable>> {
  const { ports, node, version, tree } = options;
  const { clock, files } = ports;
  const never = new AbortController().signal;
  const render = async (): Promise<string> => {
    const [certificates, servers] = await Promise.all([
      listCertificateExpiries(files),
      readBalancerHealth(APILB_HEALTH_SOCKET, { clock, signal: never }).catch(() => []), // none runs, or it hangs
    ]);
    return renderMetrics(
      agentMetrics({
        ...{ version, certificates, servers },
        usage: ports.usage(),
        tree: tree(),
        nowMs: clock.nowMs(),
      }),
    );
  };
  const metrics = async (signal: AbortSignal): Promise<string> => {
    const read = (port: number): Promise<string | undefined> =>
      readMetrics(`http://127.0.0.1:${port}/metrics`, { clock, signal });
    const joinservice = await read(PORTS.joinserviceMetrics);
    const etcd = await Promise.all(
      ETCD_NAMES.map(async (name) => ({
        labels: { etcd: name },
        page: await read(ETCD_PORTS[name].metrics),
      })),
    );
    return [await render(), joinservice ?? '', mergeMetrics(etcd)].join('');
  };
  return {
    attend: nodeStreamWorker({
      reads: node.values,
      curators: node.curators,
      agentVersion: version,
      portsOf: (membership) => taskPorts(options, membership, metrics),
    }),
    metrics: async (scope) => {
      scope.healthy();
      await serveMetrics({ port: PORTS.agentMetrics, render }, scope.signal);
    },
  };
}

function taskPorts(
  { ports, node, etcd }: OperatorRunnablesOptions,
  { clusterId, nodeId, nodeName }: Membership,
  metrics: TaskPorts['metrics'],
): TaskPorts {
  const { files, clock, log } = ports;
  const { evidence, resetOrders } = node;
  return {
    ring: ports.ring,
    commands: ports.commands,
    evidence: {
      variant: evidence.variant,
      make: (nonce, signal) => evidence.forVerify({ clusterId, nodeId, nonce }, signal),
    },
    reset: (order) => resetOrders.accept(clusterId, order),
    probe: createRemovalProbeTask({
      ...{ files, clock, log: log.child('removal-probe'), etcd },
      ...{ nodeName, clusterId },
    }),
    metrics,
  };
}
