import { currentValue } from '../../internal/event/index.ts';
import {
  createBlobUploads,
  createComponentSource,
  fetchBlob,
  type ComponentSource,
} from '../components/index.ts';
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
import { createCuratorClient } from './create-curator-client.ts';
import { createJoinClient } from './create-join-client.ts';
import { openMachine, type OpenMachine } from './open-machine.ts';
import { openStorage, type OpenStorage } from './open-storage.ts';

/** Everything that the workers share, opened once for each run of the agent. */
export interface OpenNode {
  readonly machine: OpenMachine;
  readonly storage: OpenStorage;
  /** Every runnable can read a value; only the runnable that has claimed it writes it. */
  readonly valueStore: RoleValueStore;
  readonly values: RoleValues;
  /** Publishes this node's membership and roles. */
  readonly membership: NodeMembership;
  readonly cluster: ClusterClients;
  readonly entry: ClusterEntry;
  readonly orders: NodeOrders;
}

/** Connections to the cluster. */
export interface ClusterClients {
  readonly curators: CuratorClient;
  readonly joinClient: JoinClient;
  /** Components of the bundle; missing ones are fetched from curators. */
  readonly components: ComponentSource;
}

/** How this machine becomes a member: it creates a cluster, joins one, or resumes. */
export interface ClusterEntry {
  readonly job: InitJob;
  /** Accepts the components that an owner uploads before the init. */
  readonly uploads: BlobUploads;
  readonly enrolment: Enrolment<Membership>;
  /**
   * The address for certificates and etcd. Until an init was accepted, this is the machine's current address.
   */
  readonly ownAddress: () => string;
  /** Whether this machine is a member, or a join has locked it to a cluster. */
  readonly isJoinedOrJoining: () => Promise<boolean>;
}

/** Requests that end the agent. The next start of the agent carries them out before anything else. */
export interface NodeOrders {
  readonly recovery: RecoveryService;
  readonly reset: ResetOrders;
}

/**
 * Opens all parts of the agent in the order of their dependencies. No worker runs yet when the promise
 * resolves.
 */
export async function openNode(
  ports: AgentPorts,
  options: AgentOptions,
  signal: AbortSignal,
): Promise<OpenNode> {
  const machine = await openMachine(ports, options, signal);
  const storage = await openStorage(ports, options.provisioning);
  const valueStore = new RoleValueStore();
  const { values } = valueStore;
  const membership = new NodeMembership(valueStore);
  const { job, ownAddress } = createInitJob(ports, machine, storage);
  const parts: Parts = { machine, storage, values, membership, job, ownAddress };
  const cluster = createClients(ports, parts, { ...options, signal });
  return {
    ...{ machine, storage, valueStore, values, membership, cluster },
    entry: {
      ...{ job, ownAddress },
      uploads: createBlobUploads({ ...ports, store: storage.blobs, signal }, AGENT_PATHS.state),
      enrolment: createEnrolment(ports, parts, cluster.joinClient),
      isJoinedOrJoining: async () =>
        (await storage.state.membership.load()) !== undefined || (await machine.lock.read())?.by === 'join',
    },
    orders: createOrders(ports, parts),
  };
}

interface Parts extends Pick<OpenNode, 'machine' | 'storage' | 'values' | 'membership'> {
  readonly job: InitJob;
  readonly ownAddress: () => string;
}

function createInitJob(
  { files }: AgentPorts,
  { lock, checks, currentAddress }: OpenMachine,
  { phases }: OpenStorage,
): Pick<ClusterEntry, 'job' | 'ownAddress'> {
  const job = new InitJob(
    { files, lock, phases, preflight: (spec) => checks.checkForInit(spec), ownAddress: currentAddress },
    AGENT_PATHS.init,
  );
  const ownAddress = (): string => currentValue(job.accepted)?.nodeAddress ?? currentAddress();
  return { job, ownAddress };
}

function createClients(
  ports: AgentPorts,
  { machine, storage, values, ownAddress }: Parts,
  { provisioning, version, signal }: AgentOptions,
): ClusterClients {
  const { files, streams, clock, log } = ports;
  const { identity, evidence, ownerKeys, checks } = machine;
  const { operatorEndpoints, collateral, blobs: store } = storage;
  const curators = createCuratorClient(ports, { reads: values, identity, provisioning, operatorEndpoints });
  const joinClient = createJoinClient(ports, {
    ...{ provisioning, version, identity, evidence, ownerKeys, ownAddress, operatorEndpoints, collateral },
    checkMachine: () => checks.checkForJoin(),
  });
  const components = createComponentSource({ store, files, streams, signal }, (blob, fetchSignal) =>
    fetchBlob({ store, curators, clock, log: log.child('fetch') }, blob, fetchSignal),
  );
  return { curators, joinClient, components };
}

function createEnrolment(
  { files, clock, log }: AgentPorts,
  { machine, storage, values, membership: node, job, ownAddress }: Parts,
  joinClient: JoinClient,
): Enrolment<Membership> {
  const { identity, lock, hasAddress } = machine;
  const { state } = storage;
  const nowMs = (): number => clock.nowMs();
  const lifetimes = () => certificateLifetimes(values);
  const renewal = { ...{ files, state, values, joinClient, nowMs, lifetimes, log }, machine: identity };
  const handlers = createEnrolmentHandlers({
    ...{ files, lock, job, state, node, ownAddress },
    clusterMembership: values.clusterMembership,
    joinClient: {
      admit: async (admitSignal) => {
        await untilAddress({ hasOne: hasAddress, clock, log }, admitSignal);
        return joinClient.admit(admitSignal);
      },
      requestTicket: (record, ticketSignal) => joinClient.requestTicket(record, ticketSignal),
      reportJoined: (joined) => joinClient.reportJoined(joined),
    },
    log: log.child('enrolment'),
    ensureValidCertificates: (known, resuming) => ensureValidCertificates(renewal, known, resuming),
  });
  return new Enrolment<Membership>({ handlers, log: log.child('enrolment') });
}

function createOrders(ports: AgentPorts, { machine, values }: Parts): NodeOrders {
  const { ownerKeys, identity } = machine;
  return {
    recovery: new RecoveryService(ports, {
      membership: () => currentValue(values.clusterMembership),
      directory: () => currentValue(values.clusterDirectory),
    }),
    reset: new ResetOrders({
      ...{ files: ports.files, paths: AGENT_PATHS, ownerKeys, nodeId: identity.nodeId },
    }),
  };
}
