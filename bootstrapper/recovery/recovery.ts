import { dirname } from 'node:path';
import { currentValue, EventValue, type Readable } from '../../internal/event/index.ts';
import { describeError } from '../../internal/errors/index.ts';
import {
  clientEndpointsOf,
  ConsensusError,
  consensusLayout,
  ETCD_INSTANCES,
  ETCD_NAMES,
  ETCD_PORTS,
  type EtcdName,
  decideRecoveries,
  judgeRecoveries,
  QUOTA_BYTES,
  type RecoverConfig,
  recoverMember,
  surveyMembers,
  type Surveys,
  surveyWithDataCopy,
} from '../consensus/index.ts';
import { type ClusterDirectory, directoryFromMembership } from '../curatorclient/index.ts';
import type { Membership } from '../membership/index.ts';
import { PATHS } from '../kubernetes/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import { PORTS, urlHost } from '../../internal/endpoint/index.ts';
import { readText, type FilePort } from '../../internal/file/index.ts';
import { AGENT_PATHS, createNodeState } from '../nodestate/index.ts';
import type { RoleValues } from '../roleserve/index.ts';
import {
  encodeRecoveryOrder,
  readRecoveryOrder,
  type RecoveryOrder,
  saveRecoveryOrder,
} from './recovery-order.ts';

const MAX_BYTES = 64 * 1024;

/** Ports (injected dependencies) of `RecoveryService`. */
interface RecoveryServicePorts extends SystemPorts {
  readonly reads: Pick<RoleValues, 'clusterMembership' | 'clusterDirectory'>;
}

/**
 * Configuration of this etcd member and of the other members, from the membership and the list of control planes.
 * @param temporaryPorts loopback ports of the temporary etcd that runs in addition to the member
 */
export function temporaryEtcdConfig(
  name: EtcdName,
  membership: Membership,
  directory: ClusterDirectory | undefined,
  temporaryPorts: RecoverConfig['temporaryPorts'] = PORTS.recoveryEtcd,
): RecoverConfig {
  const { nodeId, nodeAddress, clusterId } = membership;
  const others = (directory ?? directoryFromMembership(membership)).filter((each) => each.nodeId !== nodeId);
  const program = (file: string): string => `${PATHS.bin}/${file}`;
  return {
    ...{ etcd: ETCD_INSTANCES[name], nodeId, clusterId, address: nodeAddress },
    ...{ ports: ETCD_PORTS[name], temporaryPorts, quotaBytes: QUOTA_BYTES[name] },
    peers: clientEndpointsOf(
      others.map(({ host }) => urlHost(host)),
      ETCD_PORTS[name],
    ),
    ...{ etcdBinary: program('etcd'), etcdctlBinary: program('etcdctl'), etcdutlBinary: program('etcdutl') },
    layout: consensusLayout(AGENT_PATHS.state, name),
  };
}

/** Whether the quorum can be recovered from this machine, and what it would lose. */
interface QuorumSurvey extends Pick<ReturnType<typeof judgeRecoveries>, 'refusals' | 'damage' | 'losses'> {
  readonly clusterName: string;
  readonly nodeName: string;
  readonly surveys: Surveys;
  /** The error of the last attempt; empty if there was none. */
  readonly lastFailure: string;
  readonly isOrdered: boolean;
}

/** Shows root on this machine whether the quorum can be recovered, and accepts the request to do so. */
export class RecoveryService {
  /** Whether a recovery was requested. If so, the agent has to end. */
  readonly ordered: Readable<boolean>;
  /** The reason with which the agent ends after such a request. */
  readonly reason = new ConsensusError(
    'consensus-recovering',
    'ending the agent, which recovers the quorum after systemd has restarted it',
  );
  readonly #ports: RecoveryServicePorts;
  readonly #ordered = new EventValue<boolean>();

  constructor(ports: RecoveryServicePorts) {
    this.#ports = ports;
    this.ordered = this.#ordered;
    this.#ordered.set(false);
  }

  /** Surveys both etcd clusters; changes nothing. @throws ConsensusError `consensus-not-recoverable` without etcd data */
  async survey(signal: AbortSignal): Promise<QuorumSurvey> {
    const { files, reads } = this.#ports;
    const membership = await this.#member();
    const survey = (name: EtcdName) =>
      surveyMembers(
        this.#ports,
        temporaryEtcdConfig(name, membership, currentValue(reads.clusterDirectory)),
        signal,
      );
    const surveys = { state: await survey('state'), kubernetes: await survey('kubernetes') };
    const { refusals, damage, losses } = judgeRecoveries(surveys);
    const { clusterName, nodeName } = membership;
    return {
      ...{ clusterName, nodeName, surveys, refusals, damage, losses },
      lastFailure: (await readText(files, AGENT_PATHS.recoveryFailure, MAX_BYTES)) ?? '',
      isOrdered: (await files.stat(AGENT_PATHS.recoveryOrder)) !== undefined,
    };
  }

  /**
   * Requests the recovery. The request is on disk when the promise resolves, and then the agent ends.
   * @throws ConsensusError `consensus-not-recoverable`
   */
  async order(clusterName: string, skipChecks: boolean): Promise<void> {
    const { files } = this.#ports;
    const membership = await this.#member();
    if (clusterName !== membership.clusterName)
      throw new ConsensusError(
        'consensus-not-recoverable',
        `this machine belongs to cluster ${membership.clusterName}, not to ${JSON.stringify(clusterName.slice(0, 80))}`,
      );
    await files.makeDirectory(dirname(AGENT_PATHS.recoveryOrder));
    await files.remove(AGENT_PATHS.recoveryFailure);
    await files.createExclusive(
      AGENT_PATHS.recoveryOrder,
      encodeRecoveryOrder({ clusterName, skipChecks, decided: undefined, done: [] }),
    );
    this.#ordered.set(true);
  }

  async #member(): Promise<Membership> {
    const membership = currentValue(this.#ports.reads.clusterMembership);
    const hasData = await this.#ports.files.stat(consensusLayout(AGENT_PATHS.state, 'state').memberData);
    if (membership === undefined || hasData === undefined)
      throw new ConsensusError('consensus-not-recoverable', 'no etcd data found on this machine');
    return membership;
  }
}

/**
 * Carries out a request that is on disk. Must be called before the agent opens anything else, so that nothing
 * starts etcd meanwhile. A request that is refused, or that fails before any data was replaced, is deleted,
 * and its error is saved.
 */
export async function runPendingRecovery(ports: SystemPorts, signal: AbortSignal): Promise<void> {
  const { files } = ports;
  const log = ports.log.child('recovery');
  const order = await readRecoveryOrder(files);
  if (order === undefined) return;
  const state = createNodeState(files);
  const membership = await state.membership.load();
  if (membership === undefined) return;
  const directory = await state.directory.load();
  const work: RecoveryWork = {
    ports: { ...ports, log },
    configOf: (name) => temporaryEtcdConfig(name, membership, directory),
  };
  log.warn('recovering the etcd quorum from this machine alone, as ordered', {});
  try {
    await recoverDecided(work, order, signal);
  } catch (error) {
    signal.throwIfAborted();
    // Once one etcd cluster has new data, the request must stay, so that the next start completes it.
    if (await hasStarted(files)) throw error;
    log.error('quorum not recovered', { error });
    await files.writeAtomic(AGENT_PATHS.recoveryFailure, describeError(error));
  }
  await files.remove(AGENT_PATHS.recoveryOrder);
}

async function recoverDecided(work: RecoveryWork, order: RecoveryOrder, signal: AbortSignal): Promise<void> {
  const { files } = work.ports;
  const decided = order.decided ?? (await decide(work, order.skipChecks, signal));
  let now: RecoveryOrder = { ...order, decided };
  await saveRecoveryOrder(files, now);
  for (const name of decided) {
    if (now.done.includes(name)) continue;
    await recoverMember(work.ports, work.configOf(name), signal);
    now = { ...now, done: [...now.done, name] };
    await saveRecoveryOrder(files, now);
  }
}

async function hasStarted(files: FilePort): Promise<boolean> {
  const markers = ETCD_NAMES.map((name) => consensusLayout(AGENT_PATHS.state, name).recoveryMarker);
  const stats = await Promise.all(markers.map((path) => files.stat(path)));
  return stats.some((stat) => stat !== undefined) || ((await readRecoveryOrder(files))?.done.length ?? 0) > 0;
}

interface RecoveryWork {
  readonly ports: SystemPorts;
  readonly configOf: (name: EtcdName) => RecoverConfig;
}

/** Surveys both etcd clusters again at the last moment: the other members may have returned. */
async function decide(
  { ports, configOf }: RecoveryWork,
  skipChecks: boolean,
  signal: AbortSignal,
): Promise<readonly EtcdName[]> {
  const surveys: Surveys = {
    state: await surveyWithDataCopy(ports, configOf('state'), signal),
    kubernetes: await surveyWithDataCopy(ports, configOf('kubernetes'), signal),
  };
  return decideRecoveries(surveys, skipChecks);
}
