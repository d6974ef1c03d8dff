import { currentValue } from '../../internal/event/index.ts';
import type { TreeSnapshot } from '../../internal/supervisor/index.ts';
import {
  createBlobUploads,
  createComponentSource,
  fetchBlob,
  type ComponentSource,
} from '../components/index.ts';
import type { MachineControlPlaneDriver } from '../controlplane/index.ts';
import type { CuratorClient } from '../curatorclient/index.ts';
import { createEnrolmentHandlers, Enrolment } from '../enrolment/index.ts';
import { InitJob, type BlobUploads } from '../initserver/index.ts';
import type { JoinClient } from '../joinclient/index.ts';
import type { Membership } from '../membership/index.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';
import { untilAddress } from '../preflight/index.ts';
import { RecoveryService } from '../recovery/index.ts';
import { certificateLifetimes, ensureValidCertificates } from '../renewal/index.ts';
import { ResetOrders } from '../reset/index.ts';
import { NodeMembership, RoleValueStore, type RoleValues } from '../roleserve/index.ts';
import type { AgentOptions, AgentPorts } from './agent-ports.ts';
import { createControlPlaneDriver } from './create-control-plane-driver.ts';
import { createCuratorClient } from './create-curator-client.ts';
import { createJoinClient } from './create-join-client.ts';
import { openMachine, type OpenMachine } from './open-machine.ts';
import { openStorage, type OpenStorage } from './open-storage.ts';

/**
 * All parts of the agent, each created once and under one name. Most workers take this whole object, and the
 * type of their options says which parts they use. So a search for a name finds where the part is created
 * and everything that uses it.
 */
export interface Agent
  extends AgentPorts, Omit<AgentOptions, 'onReady'>, AgentControl, OpenMachine, OpenStorage {
  /** Every runnable can read a value; only the runnable that has claimed it writes it. */
  readonly valueStore: RoleValueStore;
  readonly reads: RoleValues;
  /** Publishes this node's membership and roles. */
  readonly membership: NodeMembership;
  readonly curators: CuratorClient;
  readonly joinClient: JoinClient;
  /** Components of the bundle; missing ones are fetched from curators. */
  readonly components: ComponentSource;
  /** Accepts the components that an owner uploads before the init. */
  readonly uploads: BlobUploads;
  readonly job: InitJob;
  readonly enrolment: Enrolment<Membership>;
  /**
   * The address for certificates and etcd. Until an init was accepted, this is the machine's current address.
   */
  readonly ownAddress: () => string;
  /** Whether this machine is a member, or a join has locked it to a cluster. */
  readonly isJoinedOrJoining: () => Promise<boolean>;
  /** Whether this node is creating the cluster. Only then may it create the shared keys. */
  readonly isCreatingCluster: () => boolean;
  /** etcd, curator and join service on this machine. */
  readonly driver: MachineControlPlaneDriver;
  /** Requests that end the agent. The next start of the agent carries them out before anything else. */
  readonly recovery: RecoveryService;
  readonly resetOrders: ResetOrders;
}

/** What its parts can ask of the running agent. */
export interface AgentControl {
  /** Snapshot of the state of everything that the agent runs. */
  readonly tree: () => TreeSnapshot;
  /** Ends the pauses after failures, so that failed work is retried at once. */
  readonly retryNow: () => void;
  /** Ends the agent; systemd starts it again. */
  readonly end: (reason: unknown) => void;
}

/**
 * Opens all parts of the agent in the order of their dependencies. No worker runs yet when the promise
 * resolves.
 */
export async function openAgent(ports: AgentPorts, options: AgentOptions & AgentControl): Promise<Agent> {
  const machine = await openMachine(ports, options);
  const storage = await openStorage(ports, options.provisioning);
  const valueStore = new RoleValueStore();
  const membership = new NodeMembership(valueStore);
  const opened = { ...ports, ...options, ...machine, ...storage, valueStore, membership };
  const { checks, currentAddress, lock, state, streams, signal, blobs: store } = opened;
  const job = new InitJob(
    { ...opened, preflight: (spec) => checks.checkForInit(spec), ownAddress: currentAddress },
    AGENT_PATHS.init,
  );
  const withJob = {
    ...{ ...opened, job, reads: valueStore.values },
    ownAddress: () => currentValue(job.accepted)?.nodeAddress ?? currentAddress(),
    isCreatingCluster: () => job.isInProgress(),
    isJoinedOrJoining: async () =>
      (await state.membership.load()) !== undefined || (await lock.read())?.by === 'join',
  };
  const curators = createCuratorClient(withJob);
  const connected = { ...withJob, curators, joinClient: createJoinClient(withJob) };
  const fetchPorts = { ...connected, store, log: opened.log.child('fetch') };
  return {
    ...connected,
    components: createComponentSource({ ...opened, store }, (blob, fetchSignal) =>
      fetchBlob(fetchPorts, blob, fetchSignal),
    ),
    uploads: createBlobUploads({ ...opened, streams, signal, store }, AGENT_PATHS.state),
    enrolment: createEnrolment(connected),
    driver: createControlPlaneDriver(connected),
    recovery: new RecoveryService(connected),
    resetOrders: new ResetOrders({ ...connected, paths: AGENT_PATHS }),
  };
}

/** The parts that enrolment uses. */
type EnrolmentParts = Omit<
  Agent,
  'components' | 'uploads' | 'enrolment' | 'driver' | 'recovery' | 'resetOrders'
>;

function createEnrolment(parts: EnrolmentParts): Enrolment<Membership> {
  const { reads, joinClient, clock, identity } = parts;
  const log = parts.log.child('enrolment');
  const renewal = {
    ...{ ...parts, machine: identity },
    nowMs: () => clock.nowMs(),
    lifetimes: () => certificateLifetimes(reads),
  };
  const handlers = createEnrolmentHandlers({
    ...{ ...parts, log, node: parts.membership, clusterMembership: reads.clusterMembership },
    joinClient: {
      admit: async (signal) => {
        await untilAddress({ hasOne: parts.hasAddress, clock, log: parts.log }, signal);
        return joinClient.admit(signal);
      },
      requestTicket: (record, signal) => joinClient.requestTicket(record, signal),
      reportJoined: (joined) => joinClient.reportJoined(joined),
    },
    ensureValidCertificates: (known, resuming) => ensureValidCertificates(renewal, known, resuming),
  });
  return new Enrolment<Membership>({ handlers, log });
}
