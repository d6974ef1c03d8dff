import { EventValue, when, type Readable } from '../../internal/event/index.ts';
import { describeError } from '../../internal/errors/index.ts';
import type { Runnable } from '../../internal/supervisor/index.ts';
import {
  consensusLayout,
  ConsensusError,
  DEFAULT_QUOTA_BYTES,
  ETCD_PORTS,
  judgeRecovery,
  recoverAlone,
  surveyMembers,
  type RecoverConfig,
} from '../consensus/index.ts';
import { directoryOf, type ClusterDirectory } from '../curatorclient/index.ts';
import type { Membership } from '../enrolment/index.ts';
import { PATHS } from '../kubernetes/index.ts';
import type { QuorumRecovery } from '../machineservice/index.ts';
import type { AgentPorts } from './agent-ports.ts';
import { NodeState } from './node-state.ts';
import { PLACES } from './places.ts';

const MAX_BYTES = 64 * 1024;
/** For the answer to reach who has ordered: the socket closes with the agent. */
const ANSWER_MS = 500;
/** Of the copy that is looked into; the loopback only. */
const RECOVERY_PORTS = { client: 2382, peer: 2383, metrics: 2384 };

type RecoveryPorts = Pick<AgentPorts, 'files' | 'commands' | 'units' | 'clock' | 'log'>;

/** What this member of etcd is and where the others are, as the disk has it. */
function configOf(membership: Membership, directory: ClusterDirectory | undefined): RecoverConfig {
  const { nodeId, nodeAddress, clusterId } = membership;
  const others = (directory ?? directoryOf(membership)).filter((each) => each.nodeId !== nodeId);
  const program = (name: string): string => `${PATHS.bin}/${name}`;
  return {
    ...{ nodeId, clusterId, address: nodeAddress, ports: ETCD_PORTS, recoveryPorts: RECOVERY_PORTS },
    peers: others.map(({ host }) => `${host.includes(':') ? `[${host}]` : host}:${ETCD_PORTS.client}`),
    quotaBytes: DEFAULT_QUOTA_BYTES,
    ...{ etcdBinary: program('etcd'), etcdctlBinary: program('etcdctl'), etcdutlBinary: program('etcdutl') },
    stateDir: PLACES.state,
    layout: consensusLayout(PLACES.state),
  };
}

/** The recovery of the quorum, as root on this machine sees and orders it while the agent runs. */
export class RecoveryDesk implements QuorumRecovery {
  readonly #ports: RecoveryPorts;
  readonly #membership: () => Membership | undefined;
  readonly #directory: () => ClusterDirectory | undefined;
  readonly #ordered = new EventValue<boolean>();

  constructor(
    ports: RecoveryPorts,
    now: {
      readonly membership: () => Membership | undefined;
      readonly directory: () => ClusterDirectory | undefined;
    },
  ) {
    this.#ports = ports;
    this.#membership = now.membership;
    this.#directory = now.directory;
    this.#ordered.set(false);
  }

  get ordered(): Readable<boolean> {
    return this.#ordered;
  }

  async survey(signal: AbortSignal): ReturnType<QuorumRecovery['survey']> {
    const { files } = this.#ports;
    const membership = await this.#member();
    const survey = await surveyMembers(this.#ports, configOf(membership, this.#directory()), signal);
    const failure = await files.read(PLACES.recoveryFailure, MAX_BYTES);
    const { clusterName, nodeName } = membership;
    return {
      ...{ clusterName, nodeName, ...survey, ...judgeRecovery(survey) },
      lastFailure: Buffer.from(failure ?? []).toString('utf8'),
      isOrdered: (await files.stat(PLACES.recoveryOrder)) !== undefined,
    };
  }

  async order(clusterName: string): Promise<void> {
    const { files } = this.#ports;
    const membership = await this.#member();
    if (clusterName !== membership.clusterName)
      throw new ConsensusError(
        'consensus-not-recoverable',
        `recovering ${JSON.stringify(clusterName.slice(0, 80))}: this machine belongs to ${membership.clusterName}`,
      );
    await files.makeDirectory(folderOf(PLACES.recoveryOrder));
    await files.remove(PLACES.recoveryFailure);
    await files.createExclusive(PLACES.recoveryOrder, `${JSON.stringify({ version: 1, clusterName })}\n`);
    this.#ordered.set(true);
  }

  async #member(): Promise<Membership> {
    const membership = this.#membership();
    const hasData = await this.#ports.files.stat(consensusLayout(PLACES.state).memberData);
    if (membership === undefined || hasData === undefined)
      throw new ConsensusError('consensus-not-recoverable', 'no data of etcd found on this machine');
    return membership;
  }
}

/**
 * An order that waits on this machine's disk: carried out before anything of the agent is opened, so that nothing else
 * starts etcd meanwhile. One that is refused, or fails before the data was exchanged, is given up and says why.
 */
export async function carryOutWaitingRecovery(ports: RecoveryPorts, signal: AbortSignal): Promise<void> {
  const { files } = ports;
  const log = ports.log.child('recovery');
  if ((await files.stat(PLACES.recoveryOrder)) === undefined) return;
  const state = new NodeState(files);
  const membership = await state.membership.load();
  if (membership === undefined) return;
  const config = configOf(membership, await state.directory.load());
  log.warn('the quorum of the cluster is recovered from this machine alone, as was ordered', {});
  try {
    await recoverAlone({ ...ports, log }, config, signal);
  } catch (error) {
    signal.throwIfAborted();
    // Half way the order has to stay: the next start completes it.
    if ((await files.stat(config.layout.recoveryMark)) !== undefined) throw error;
    log.error('the quorum was not recovered', { error });
    await files.writeAtomic(PLACES.recoveryFailure, describeError(error));
  }
  await files.remove(PLACES.recoveryOrder);
}

/** Ends the agent when a recovery was ordered: systemd starts it again, and it begins with that. */
export function recoveryRunnable(
  { desk, clock }: { readonly desk: Pick<RecoveryDesk, 'ordered'>; readonly clock: AgentPorts['clock'] },
  end: (reason: unknown) => void,
): Runnable {
  return async (scope) => {
    scope.healthy();
    scope.waiting('an order to recover the quorum');
    await when(desk.ordered, (isOrdered) => isOrdered, scope.signal);
    await clock.sleep(ANSWER_MS, scope.signal);
    end(new ConsensusError('consensus-recovering', 'ending the agent'));
    scope.signal.throwIfAborted();
  };
}

function folderOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/'));
}
