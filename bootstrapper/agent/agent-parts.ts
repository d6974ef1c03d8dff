import type { TreeSnapshot } from '../../internal/supervisor/index.ts';
import type { ComponentSource } from '../components/index.ts';
import type { ContentMonitor } from '../consensus/index.ts';
import type { MachineControlPlaneDriver } from '../controlplane/index.ts';
import type { UpdateMembership } from '../credentials/index.ts';
import type { CuratorClient } from '../curatorclient/index.ts';
import type { Enrolment } from '../enrolment/index.ts';
import type { PodNetworkProbe } from '../hosthealth/index.ts';
import type { BlobUploads, InitJob } from '../initserver/index.ts';
import type { JoinClient } from '../joinclient/index.ts';
import type { Membership } from '../membership/index.ts';
import type { RecoveryService } from '../recovery/index.ts';
import type { ResetOrders } from '../reset/index.ts';
import type { NodeMembership, RoleValues, RoleValueStore } from '../roleserve/index.ts';
import type { RollbackGuard } from '../rollback/index.ts';
import type { AgentOptions, AgentPorts } from './agent-ports.ts';
import type { OpenMachine } from './open-machine.ts';
import type { OpenStorage } from './open-storage.ts';
import type { DiskShare } from './statedisk/disk-share-worker.ts';
import type { DiskKeys } from './statedisk/rotation-order.ts';

/**
 * All parts of the agent, each created once and under one name. Most workers take this whole object, and the type of
 * their options says which parts they use. So a text search for the name of a part finds the code that creates the part
 * and all code that uses it.
 */
export interface Agent
  extends
    AgentPorts,
    Omit<AgentOptions, 'onReady' | 'onStatus' | 'onSlowStart'>,
    AgentControl,
    OpenMachine,
    OpenStorage {
  /** Whether the disk of this machine is an old copy. */
  readonly rollback: RollbackGuard;
  /** Every runnable can read a value; only the runnable that has claimed it writes it. */
  readonly valueStore: RoleValueStore;
  readonly reads: RoleValues;
  /** Publishes this node's membership and roles. */
  readonly membership: NodeMembership;
  readonly updateMembership: UpdateMembership;
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
  /** Whether the cluster that this node is creating is restored from a backup. */
  readonly isRestoringCluster: () => boolean;
  /** The cluster share of the state disk; undefined without one. */
  readonly diskShare: DiskShare | undefined;
  /** The keys of the state disk; undefined without one. */
  readonly diskKeys: DiskKeys | undefined;
  /** Starts and stops etcd, curator and join service on this machine. */
  readonly driver: MachineControlPlaneDriver;
  /** Compares the content of all etcd members while this machine runs the leader. */
  readonly etcdContent: ContentMonitor;
  /** Probes other nodes through the network of pods. */
  readonly podNetwork: PodNetworkProbe;
  /**
   * Orders to recover etcd or to reset the machine. An order ends the agent, and the next start of the agent
   * carries it out before anything else.
   */
  readonly recovery: RecoveryService;
  readonly resetOrders: ResetOrders;
}

/** Actions on the running agent itself, for the parts of the agent. */
export interface AgentControl {
  /** Snapshot of the state of everything that the agent runs. */
  readonly tree: () => TreeSnapshot;
  /** Ends the pauses after failures, so that failed work is retried at once. */
  readonly retryNow: () => void;
  /** Ends the agent; systemd starts it again. After a move of the disk share, it starts again in the same process. */
  readonly end: (reason: unknown) => void;
}

/** The parts of the agent once the curator client and the join client exist. */
export type ConnectedParts = Omit<
  Agent,
  | 'components'
  | 'uploads'
  | 'enrolment'
  | 'driver'
  | 'etcdContent'
  | 'podNetwork'
  | 'recovery'
  | 'resetOrders'
>;

/** The parts of the agent before the curator client and the join client exist. */
export type OpenedParts = Omit<ConnectedParts, 'curators' | 'joinClient' | 'updateMembership'>;
