import { PORTS } from '../../internal/endpoint/index.ts';
import { DiskStreams } from '../../internal/file/index.ts';
import { mergeMetrics, readMetrics, renderMetrics, serveMetrics } from '../../internal/metrics/index.ts';
import type { Runnable } from '../../internal/supervisor/index.ts';
import { BackupRing, createBackupTask } from '../backup/index.ts';
import { ETCD_NAMES, ETCD_PORTS } from '../consensus/index.ts';
import {
  APILB_HEALTH_SOCKET,
  CONTROL_PLANE_KEY_FILES,
  OPTIONAL_KEY_FILES,
  readBalancerHealth,
} from '../kubernetes/index.ts';
import type { Membership } from '../membership/index.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';
import { agentMetrics, listCertificateExpiries } from '../nodestatus/index.ts';
import { nodeStreamWorker, obeyPowerOrder, type TaskPorts } from '../nodestream/index.ts';
import { createRemovalProbeTask } from '../removalprobe/index.ts';
import type { Agent } from './agent-parts.ts';

/**
 * The runnables that answer requests of operators to this node: logs, evidence, metrics, a removal probe, a
 * reset.
 */
export function operatorRunnables(agent: Agent): Readonly<Record<string, Runnable>> {
  return {
    nodestream: nodeStreamWorker({ ...agent, portsOf: (membership) => taskPorts(agent, membership) }),
    metrics: async (scope) => {
      scope.healthy();
      await serveMetrics({ port: PORTS.agentMetrics, render: () => renderOwn(agent) }, scope.signal);
    },
  };
}

/** Metrics of the agent itself. */
async function renderOwn({ clock, files, agentVersion, usage, tree }: Agent): Promise<string> {
  const signal = new AbortController().signal;
  const [certificates, servers] = await Promise.all([
    listCertificateExpiries(files),
    readBalancerHealth(APILB_HEALTH_SOCKET, { clock, signal }).catch(() => []), // no balancer runs or responds
  ]);
  const now = { usage: usage(), tree: tree(), nowMs: clock.nowMs() };
  return renderMetrics(agentMetrics({ version: agentVersion, certificates, servers, ...now }));
}

/** Metrics of every program on this node that responds. */
async function renderNode(agent: Agent, signal: AbortSignal): Promise<string> {
  const { clock } = agent;
  const read = (port: number): Promise<string | undefined> =>
    readMetrics(`http://127.0.0.1:${port}/metrics`, { clock, signal });
  const joinservice = await read(PORTS.joinserviceMetrics);
  const etcd = await Promise.all(
    ETCD_NAMES.map(async (name) => ({ labels: { etcd: name }, page: await read(ETCD_PORTS[name].metrics) })),
  );
  return [await renderOwn(agent), joinservice ?? '', mergeMetrics(etcd)].join('');
}

/** The backups that this node keeps. */
export function backupRing({ files }: Pick<Agent, 'files'>): BackupRing {
  return new BackupRing({ files, streams: new DiskStreams() }, AGENT_PATHS.backups);
}

function taskPorts(agent: Agent, membership: Membership): TaskPorts {
  const { evidence, resetOrders, driver } = agent;
  const { clusterId, nodeId, nodeName } = membership;
  const probePorts = { ...agent, nodeName, clusterId, log: agent.log.child('removal-probe') };
  return {
    ...agent,
    evidence: {
      variant: evidence.variant,
      make: (nonce, signal) => evidence.forVerify({ clusterId, nodeId, nonce }, signal),
    },
    reset: (order) => resetOrders.accept(clusterId, order),
    probe: createRemovalProbeTask(probePorts, () => driver.etcdMembers()),
    power: (order, signal) => obeyPowerOrder({ ...agent, log: agent.log.child('power') }, order, signal),
    metrics: (signal) => renderNode(agent, signal),
    fetchBackup: (name, signal) => backupRing(agent).read(name, signal),
    backup: createBackupTask({
      ...agent,
      clusterId,
      keyPem: agent.identity.keyPem,
      usedCertificates: AGENT_PATHS.usedBackupCertificates,
      keyFiles: { ...CONTROL_PLANE_KEY_FILES, ...OPTIONAL_KEY_FILES },
      etcdMembers: () => driver.etcdMembers(),
    }),
  };
}
