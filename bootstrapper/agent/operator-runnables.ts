import { PORTS } from '../../internal/endpoint/index.ts';
import { currentValue } from '../../internal/event/index.ts';
import { DiskStreams, type FileSystem } from '../../internal/file/index.ts';
import {
  machineUsage,
  readPage,
  renderMetrics,
  renderNodeMetrics,
  serveMetrics,
} from '../../internal/metrics/index.ts';
import { isControlPlane } from '../../internal/role/index.ts';
import type { Runnable } from '../../internal/supervisor/index.ts';
import { BackupRing, createBackupTask } from '../backup/index.ts';
import {
  APILB_HEALTH_SOCKET,
  CONTROL_PLANE_KEY_FILES,
  ControlPlaneHealth,
  createHealthProbe,
  OPTIONAL_KEY_FILES,
  readBalancerHealth,
} from '../kubernetes/index.ts';
import type { Membership } from '../membership/index.ts';
import { AGENT_PATHS, DATA_DIRECTORIES } from '../nodestate/index.ts';
import { agentMetrics, createCertificateExpiryLister, GrowthRecorder } from '../nodestatus/index.ts';
import { nodeStreamWorker, obeyPowerOrder, type TaskPorts } from '../nodestream/index.ts';
import { createRemovalProbeTask } from '../removalprobe/index.ts';
import type { Agent } from './agent-parts.ts';
import { stateDiskTasks } from './statedisk/state-disk-tasks.ts';

/** The disks that the kubelet watches. */
const DISKS = [AGENT_PATHS.kubelet, AGENT_PATHS.images].map((name) => {
  return { kind: 'filesystem' as const, name };
});
/** Time limit for the status of an etcd member. */
const MEASURE_MS = 5_000;

/**
 * The runnables that answer requests of operators to this node: logs, evidence, metrics, a removal probe, a
 * reset.
 */
export function operatorRunnables(agent: Agent): Readonly<Record<string, Runnable>> {
  const growth = new GrowthRecorder({
    ...agent,
    saved: agent.state.growth,
    expected: DISKS,
    measure: (signal) => measureGrowth(agent, signal),
  });
  const sources = {
    growth,
    health: new ControlPlaneHealth({ ...agent, probe: createHealthProbe() }),
    certificates: createCertificateExpiryLister(agent.files, agent.clock),
  };
  const renderOwn = () => renderAgent(agent, sources);
  return {
    growth: growth.run,
    nodestream: nodeStreamWorker({
      ...agent,
      portsOf: (membership) => taskPorts(agent, membership, renderOwn),
    }),
    metrics: async (scope) => {
      scope.healthy();
      await serveMetrics({ port: PORTS.agentMetrics, render: renderOwn }, scope.signal);
    },
  };
}

/** Sources of the agent's metrics. They cache what they have read, because Prometheus scrapes every few seconds. */
interface MetricSources {
  readonly health: ControlPlaneHealth;
  readonly certificates: ReturnType<typeof createCertificateExpiryLister>;
  readonly growth: Pick<GrowthRecorder, 'growths'>;
}

/** Metrics of the agent itself. */
async function renderAgent(agent: Agent, sources: MetricSources): Promise<string> {
  const { health, certificates: list, growth } = sources;
  const { clock, streams, agentVersion, usage, tree } = agent;
  const signal = new AbortController().signal;
  const [certificates, servers, fileSystems, components] = await Promise.all([
    list(),
    readBalancerHealth(APILB_HEALTH_SOCKET, { clock, signal }).catch(() => []), // no balancer runs or responds
    readFileSystems(streams),
    readComponents(agent, health, signal),
  ]);
  const now = { usage: usage(), machine: machineUsage(), tree: tree(), nowMs: clock.nowMs() };
  const backups = currentValue(agent.reads.scheduledBackups);
  const backupCopies = currentValue(agent.reads.backupCopies);
  const { growths } = growth;
  const contents = agent.etcdContent.contents();
  const { roundTrips = [] } = agent.podNetwork.found ?? {};
  const found = { certificates, servers, fileSystems, growths, components, backups, backupCopies, contents };
  return renderMetrics(agentMetrics({ version: agentVersion, ...found, roundTrips, ...now }));
}

/** The components of the control plane on this node; empty before this node is a member. */
async function readComponents(
  { reads }: Agent,
  health: ControlPlaneHealth,
  signal: AbortSignal,
): ReturnType<ControlPlaneHealth['check']> {
  const nodeAddress = currentValue(reads.clusterMembership)?.nodeAddress;
  if (nodeAddress === undefined) return [];
  const hasRole = currentValue(reads.localRoles)?.has('KubernetesController') === true;
  return health.check({ nodeAddress, hasRole }, signal);
}

/** The file systems of those data directories that exist. */
async function readFileSystems(streams: Agent['streams']): Promise<ReadonlyMap<string, FileSystem>> {
  const found = await Promise.all(
    DATA_DIRECTORIES.map(async ({ path }) => {
      const fileSystem = await streams.fileSystem(path).catch(() => undefined); // not created yet
      return fileSystem === undefined ? [] : [[path, fileSystem] as const];
    }),
  );
  return new Map(found.flat());
}

/** Measures the disks, and the databases of both etcd members while they run here. */
async function measureGrowth({ streams, driver }: Agent, signal: AbortSignal) {
  const disks = DISKS.map(async (disk) => {
    const { sizeBytes, availableBytes } = await streams.fileSystem(disk.name);
    return { ...disk, sizeBytes, usedBytes: sizeBytes - availableBytes };
  });
  const databases = Object.entries(driver.etcdMembers() ?? {}).map(async ([name, { maintenance }]) => {
    const { dbSizeBytes, quotaBytes } = await maintenance.status({ signal, timeoutMs: MEASURE_MS });
    return { kind: 'etcd' as const, name, sizeBytes: quotaBytes, usedBytes: dbSizeBytes };
  });
  const measured = await Promise.allSettled([...disks, ...databases]);
  // A directory that does not exist yet, or a member that does not respond, is measured the next time.
  return measured.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
}

/** Metrics of every program on this node that responds. */
function renderNode(agent: Agent, renderOwn: () => Promise<string>, signal: AbortSignal): Promise<string> {
  return renderNodeMetrics({
    agent: renderOwn,
    isControlPlane: isControlPlane([...(currentValue(agent.reads.localRoles) ?? [])]),
    read: (url) => readPage(url, { ...agent, signal }),
  });
}

/** The backups that this node keeps. */
export function backupRing({ files, clock }: Pick<Agent, 'files' | 'clock'>): BackupRing {
  return new BackupRing({ files, clock, streams: new DiskStreams() }, AGENT_PATHS.backups);
}

function taskPorts(agent: Agent, membership: Membership, renderOwn: () => Promise<string>): TaskPorts {
  const { evidence, resetOrders, driver } = agent;
  const { clusterId, nodeId, nodeName } = membership;
  const probePorts = {
    ...agent,
    store: agent.keys,
    nodeName,
    clusterId,
    log: agent.log.child('removal-probe'),
  };
  return {
    ...agent,
    evidence: {
      variant: evidence.variant,
      make: (nonce, signal) => evidence.forVerify({ clusterId, nodeId, nonce }, signal),
    },
    reset: (order) => resetOrders.accept(clusterId, order),
    probe: createRemovalProbeTask(probePorts, () => driver.etcdMembers()),
    disk: stateDiskTasks(agent, membership),
    power: (order, signal) => obeyPowerOrder({ ...agent, log: agent.log.child('power') }, order, signal),
    metrics: (signal) => renderNode(agent, renderOwn, signal),
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
