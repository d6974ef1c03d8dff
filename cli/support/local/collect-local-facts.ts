import { mapConcurrently, withTimeout } from '../../../internal/cleanup/index.ts';
import type { ClusterFacts, LocalFacts } from '../../../internal/doctor/index.ts';
import { PORTS } from '../../../internal/endpoint/index.ts';
import { KubeClient, readServerVersion } from '../../../internal/kube/index.ts';
import type { CheckResult } from '../../../internal/preflight/index.ts';
import { printable } from '../../../internal/printable/index.ts';
import { probeTcp } from '../../../internal/rpc/index.ts';
import { VERSION } from '../../../internal/versions/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { readPart } from '../../cluster/index.ts';
import { metricsFrom, plain } from '../../doctor/index.ts';
import { checkThisMachine } from '../../preflight/index.ts';
import { apiServerAt, readAdminAccess, readLocalMetrics } from './local-access.ts';
import type { LocalPorts } from './local-ports.ts';
import { readNodeIdentity, type NodeIdentity } from './node-identity.ts';
import { readCertificates } from './read-certificates.ts';
import { readUnits } from './read-units.ts';

/** Each part of the facts may take this long: a disk, a program or the name service may hang. */
const PART_MS = 30_000;
const PROBE_MS = 3_000;
const AT_ONCE = 8;
const MAX_ADDRESSES = 64;
/** Directories whose file systems have the data of a node (bootstrapper/nodestate/paths.ts). */
const DATA = ['/', '/var/lib/cluster', '/var/lib/kubelet', '/var/lib/containerd', '/var/log'];
const NOT_ASKED = { ok: false as const, error: 'collected on the machine, without the cluster', codes: [] };

/** What to collect. */
export interface LocalFactsOptions {
  readonly identity: NodeIdentity;
  /** Time between two readings of the metrics. */
  readonly windowMs: number;
  /** Time for each part; only tests set it. */
  readonly sourceMs?: number;
}

/**
 * The facts of this machine. A part that cannot be read in time has its error instead. Nothing outside of the machine is called, but
 * a TCP connection to each other control plane is tried.
 */
export async function collectLocalFacts(
  context: CommandContext,
  local: LocalPorts,
  { identity, windowMs, sourceMs: ms = PART_MS }: LocalFactsOptions,
): Promise<ClusterFacts> {
  const { clock, files, commands } = context.ports;
  const { name: node, isMember, isControlPlane, address: ownAddress, clusterId, clusterName } = identity;
  const part = async <T>(what: string, read: (signal: AbortSignal) => Promise<T>) => {
    const limit = { what: `reading ${what}`, ms, clock, signal: context.signal };
    return plain(await readPart(context, () => withTimeout(limit, read)));
  };
  const [metrics, apiServer, units, requirements, certificates, fileSystems, peers] = await Promise.all([
    part('metrics', async (signal) => {
      const before = await readLocalMetrics(local, isControlPlane, signal);
      await clock.sleep(windowMs, signal);
      return metricsFrom(await readLocalMetrics(local, isControlPlane, signal), before);
    }),
    part('version of the API server', async (signal) => {
      const server = apiServerAt(ownAddress ?? '');
      using client = new KubeClient({ ...(await readAdminAccess(files)), server }, context.ports);
      return { version: printable(await readServerVersion(client, signal)) };
    }),
    part('units', (signal) => readUnits(commands, { isMember, isControlPlane }, signal)),
    part('requirements', async (signal) => unmetOf(await checkThisMachine({ ...context, signal }, local))),
    part('certificates', () => readCertificates(files)),
    part('file systems', () => readFileSystems(local)),
    mapConcurrently(identity.peers, AT_ONCE, async ({ host, endpoint }) => ({
      ...{ node: host, endpoint },
      answer: plain(await readPart(context, () => reach(host))),
    })),
  ]);
  const addresses = local.machine.addresses().slice(0, MAX_ADDRESSES);
  return {
    ...{ version: 1, takenMs: clock.nowMs(), cliVersion: VERSION, clusterId, clusterName },
    ...{ clocks: [], curators: [], kubelets: [], records: NOT_ASKED, kubernetes: NOT_ASKED, keys: NOT_ASKED },
    ...{ joins: NOT_ASKED, documents: NOT_ASKED, collateral: NOT_ASKED },
    apiServers: isControlPlane ? [{ node, answer: apiServer }] : [],
    metrics: isMember ? [{ node, answer: metrics }] : [],
    local: {
      ...{ node, isMember, isControlPlane, units, requirements },
      network: { ...(ownAddress !== undefined && { ownAddress }), addresses, peers },
      fileSystems: fileSystems.ok ? fileSystems.value : [],
      certificates: certificates.ok ? certificates.value : [],
    },
  };
}

/** The facts of this machine without the fsyncs of its etcd members, which are measured over some seconds. */
export async function collectOwnFacts(context: CommandContext, local: LocalPorts): Promise<ClusterFacts> {
  const identity = await readNodeIdentity(context.ports.files, local.machine.hostname());
  return collectLocalFacts(context, local, { identity, windowMs: 0 });
}

/** A machine that refuses a connection was reached. */
async function reach(host: string): Promise<Record<string, never>> {
  const probe = await probeTcp(host, PORTS.curator, PROBE_MS);
  if (probe === 'open' || probe === 'refused') return {};
  throw new Error(`connecting to ${host} port ${PORTS.curator} ${probe}`);
}

function unmetOf(results: readonly CheckResult[]) {
  return results
    .filter(({ status }) => status === 'failed' || status === 'warning')
    .map(({ code, status, subject, cause }) => ({ code, subject, cause, isWarning: status === 'warning' }));
}

/** The file systems of the directories with data. A directory that does not exist is left out. */
async function readFileSystems({ streams }: LocalPorts): Promise<LocalFacts['fileSystems']> {
  const found = DATA.map(async (name) => {
    const read = await streams.fileSystem(name).catch(() => undefined);
    if (read === undefined) return [];
    const { sizeBytes: capacityBytes, availableBytes, inodes, inodesFree } = read;
    return [{ name, capacityBytes, availableBytes, inodes, inodesFree }];
  });
  return (await Promise.all(found)).flat();
}
