import { familiesOf } from '../../internal/config/index.ts';
import { currentValue } from '../../internal/event/index.ts';
import { interfaceAddress } from '../../internal/platform/index.ts';
import { createBlobUploads, createComponentSource, fetchBlob } from '../components/index.ts';
import { connectAsRoot, consensusLayout, ContentMonitor } from '../consensus/index.ts';
import { snapshotBytes } from '../controlplane/index.ts';
import { createMembershipUpdates } from '../credentials/index.ts';
import { createEnrolmentHandlers, Enrolment } from '../enrolment/index.ts';
import { answerTimeMs, POD_INTERFACES, PodNetworkProbe, tryFullPackets } from '../hosthealth/index.ts';
import { InitJob } from '../initserver/index.ts';
import type { Membership } from '../membership/index.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';
import { untilAddress } from '../preflight/index.ts';
import { RecoveryService } from '../recovery/index.ts';
import { certificateLifetimes, ensureValidCertificates } from '../renewal/index.ts';
import { ResetOrders } from '../reset/index.ts';
import { NodeMembership, RoleValueStore } from '../roleserve/index.ts';
import { FLOOR_COUNTER, RollbackGuard } from '../rollback/index.ts';
import { createTpmCounter } from '../attest/index.ts';
import { SIGNER_STATE_DIRECTORY } from '../units/index.ts';
import type { Agent, AgentControl, ConnectedParts, OpenedParts } from './agent-parts.ts';
import type { AgentOptions, AgentPorts } from './agent-ports.ts';
import { createControlPlaneDriver } from './create-control-plane-driver.ts';
import { createCuratorClient } from './create-curator-client.ts';
import { createDiskShare } from './statedisk/create-disk-share.ts';
import { createJoinClient } from './create-join-client.ts';
import { openMachine } from './open-machine.ts';
import { openStorage } from './open-storage.ts';

/**
 * Opens all parts of the agent in the order of their dependencies. No worker runs yet when the promise
 * resolves.
 */
export async function openAgent(ports: AgentPorts, options: AgentOptions & AgentControl): Promise<Agent> {
  const machine = await openMachine(ports, options);
  const storage = await openStorage(ports, options.provisioning);
  const rollback = openRollbackGuard({ ...ports, ...options, ...machine, ...storage });
  await rollback.check();
  const valueStore = new RoleValueStore();
  const membership = new NodeMembership(valueStore);
  const opened = {
    ...{ ...ports, ...options, ...machine, ...storage },
    ...{ rollback, valueStore, membership },
    ...createDiskShare({ ...ports, ...options, ...machine, ...storage }),
  };
  const { checks, currentAddress, lock, state, streams, signal, blobs: store } = opened;
  const job = new InitJob(
    {
      ...opened,
      preflight: async (spec) => checks.checkForInit(spec, await snapshotBytes(opened, spec.restore)),
      ownAddress: currentAddress,
    },
    AGENT_PATHS.init,
  );
  const withJob: OpenedParts = {
    ...{ ...opened, job, reads: valueStore.values },
    ownAddress: () => currentValue(job.accepted)?.nodeAddress ?? currentAddress(),
    isCreatingCluster: () => job.isInProgress(),
    isRestoringCluster: () => job.isInProgress() && currentValue(job.accepted)?.spec.restore !== undefined,
    isJoinedOrJoining: async () =>
      (await state.membership.load()) !== undefined || (await lock.read())?.by === 'join',
  };
  const curators = createCuratorClient(withJob);
  const updateMembership = createMembershipUpdates({
    ...withJob,
    publish: (changed) => withJob.membership.renewed(changed),
  });
  const connected: ConnectedParts = {
    ...{ ...withJob, curators, updateMembership },
    joinClient: createJoinClient(withJob),
  };
  const driver = createControlPlaneDriver(connected);
  const fetchPorts = { ...connected, store, log: opened.log.child('fetch') };
  return {
    ...connected,
    components: createComponentSource({ ...opened, store }, (blob, fetchSignal) =>
      fetchBlob(fetchPorts, blob, fetchSignal),
    ),
    uploads: createBlobUploads({ ...opened, streams, signal, store }, AGENT_PATHS.state),
    enrolment: createEnrolment(connected),
    driver,
    etcdContent: createContentMonitor(connected, driver),
    podNetwork: new PodNetworkProbe({
      ...{ ...opened, tryFullPackets, ownAddress: () => podNetworkAddress(connected) },
      answerTimeMs: (host, probing) => answerTimeMs(host, { clock: opened.clock, signal: probing }),
    }),
    recovery: new RecoveryService(connected),
    resetOrders: new ResetOrders({ ...connected, paths: AGENT_PATHS }),
  };
}

/** Compares the content of the members of etcd. */
function createContentMonitor(
  connected: ConnectedParts,
  driver: ReturnType<typeof createControlPlaneDriver>,
): ContentMonitor {
  return new ContentMonitor({
    ...connected,
    members: () => driver.etcdMembers(),
    connect: (name, endpoint) =>
      connectAsRoot(connected, consensusLayout(AGENT_PATHS.state, name), [endpoint]),
  });
}

/** The address of this node in the network of pods, of the family of the cluster's first network. */
function podNetworkAddress({ reads }: Pick<ConnectedParts, 'reads'>): string | undefined {
  const [primary = 'IPv4'] = familiesOf(currentValue(reads.clusterSettings)?.serviceSubnet ?? '');
  return interfaceAddress(POD_INTERFACES[primary]);
}

/** Finds out before anything runs whether the disk of this machine is an old copy. */
function openRollbackGuard(
  parts: AgentPorts & Pick<OpenedParts, 'signal' | 'tpm' | 'state' | 'keys'>,
): RollbackGuard {
  const { tpm, state, log, signal } = parts;
  return new RollbackGuard({
    ...{ ...parts, log: log.child('rollback'), record: state.acceptedDocuments },
    configurationFloors: state.configurationFloors,
    signerDirectory: SIGNER_STATE_DIRECTORY,
    counter: tpm && createTpmCounter({ tpm, counter: FLOOR_COUNTER, signal }),
    isMember: async () => (await state.membership.load()) !== undefined,
  });
}

function createEnrolment(parts: ConnectedParts): Enrolment<Membership> {
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
