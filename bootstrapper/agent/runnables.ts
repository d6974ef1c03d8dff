import { currentValue } from '../../internal/event/index.ts';
import type { Runnable, TreeSnapshot } from '../../internal/supervisor/index.ts';
import { EVIDENCE_SOCKET } from '../../internal/atls/evidencesocket/index.ts';
import { evidenceSocketRunnable } from '../attest/index.ts';
import { collateralWorker } from '../collateral/index.ts';
import { ownAddressRunnable } from '../preflight/index.ts';
import { outcomeRunnable, ownershipRunnable } from '../ownership/index.ts';
import { MachineControlPlaneDriver, signerClusterOf, signerDriver } from '../controlplane/index.ts';
import { keyRotationRunnables } from './key-rotation-runnables.ts';
import { JOINSERVICE_USER } from '../units/index.ts';
import { consensusLayout, ETCD_PORTS } from '../consensus/index.ts';
import {
  AGENT_SOCKET,
  agentSocketRunnable,
  consoleRunnable,
  initServerRunnable,
  type MachineServicePorts,
} from '../machineservice/index.ts';
import type { InitServicePorts } from '../initserver/index.ts';
import {
  APILB_HEALTH_SOCKET,
  ControlPlaneHealth,
  type ControlPlaneHealthQuery,
  createHealthProbe,
  isListening,
  Kubeadm,
  PATHS,
  probeNode,
  probeReadyz,
  readBalancerHealth,
  type RetirePorts,
  StepCheckpoints,
} from '../kubernetes/index.ts';
import {
  balancerWorker,
  componentsWorker,
  controlPlaneWorker,
  directoryWorker,
  kubernetesWorker,
  relayWorker,
  roleFetchWorker,
  signerWorker,
  strayTaintsWorker,
} from '../roleserve/index.ts';
import {
  certificateLifetimes,
  controlPlaneRenewals,
  kubeletServingRenewal,
  type Renewal,
  renewalWorker,
  ticketRenewal,
} from '../renewal/index.ts';
import {
  createCertificateExpiryLister,
  KubernetesEtcdHealth,
  statusPushWorker,
} from '../nodestatus/index.ts';
import type { AgentPorts } from './agent-ports.ts';
import type { OpenNode } from './open-node.ts';
import { operatorRunnables } from './operator-runnables.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';

export interface RunnablesOptions {
  readonly ports: AgentPorts;
  readonly node: OpenNode;
  readonly version: string;
  readonly tree: () => TreeSnapshot;
  /** Ends the pauses after failures. */
  readonly retryNow: () => void;
}

/** Who reads and writes which value is decided here and nowhere else. */
export function createRunnables(options: RunnablesOptions): Readonly<Record<string, Runnable>> {
  const { files, clock, machine } = options.ports;
  const { identity, state, values, job, enrolment, ownerKeys, curators } = options.node;
  const { version, tree } = options;
  const reads = values;
  const driver = createDriver(options);
  const kubernetesEtcd = new KubernetesEtcdHealth({
    etcd: () => driver.etcdMembers()?.kubernetes,
    controlPlanes: () => (currentValue(values.clusterDirectory) ?? []).map(({ nodeId }) => nodeId),
    clock,
  });
  const health = new ControlPlaneHealth({ files, clock, probe: createHealthProbe() });
  const facts = {
    agentVersion: version,
    bootId: () => machine.bootId(),
    tree,
    certificates: createCertificateExpiryLister(files, clock),
    holdsKeys: () => options.node.keys.holdsKeys(),
    controlPlane: (question: ControlPlaneHealthQuery, signal: AbortSignal) => health.check(question, signal),
    kubernetesEtcd: (signal: AbortSignal) => kubernetesEtcd.check(signal),
  };
  return {
    initserver: initServerRunnable({
      job,
      enrolment,
      identity,
      evidence: options.node.evidence,
      ownerKeys,
      service: initService(options),
      machineService: machineService(options),
      clock,
      isJoinedOrJoining: options.node.isJoinedOrJoining,
    }),
    outcome: outcomeRunnable({
      job,
      enrolment,
      kubernetesStatus: values.kubernetesStatus,
      files,
      clock,
      saveToCluster: (initId, result, signal) => driver.saveInitResult(initId, result, signal),
    }),
    rolefetch: roleFetchWorker({
      reads,
      writes: values,
      curators,
      saveRoles: (roles) => state.roles.save(roles),
    }),
    agentsocket: agentSocketRunnable(AGENT_SOCKET, { ...machineService(options), files }),
    directory: directoryWorker({
      ...{ reads, curators },
      writes: values,
      saved: state.directory,
      savedRelays: state.relays,
    }),
    evidence: evidenceSocketRunnable(
      { path: EVIDENCE_SOCKET, user: JOINSERVICE_USER },
      { evidence: options.node.evidence, files, commands: options.ports.commands, clock },
    ),
    collateral: collateralWorker({
      ...{ reads, curators, clock, cache: options.node.collateral },
      random: options.ports.random,
    }),
    statuspush: statusPushWorker({ reads, curators, clock, facts }),
    renewal: renewalWorker({
      reads,
      writes: values,
      clock,
      renewals: {
        ticket: createTicketRenewal(options, driver),
        kubelet: kubeletServingRenewal({ files, units: options.ports.units }),
        ...controlPlaneRenewals({
          ...{ files, values, driver, nowMs: () => clock.nowMs() },
          log: options.ports.log.child('renewal'),
        }),
      },
    }),
    console: consoleRunnable({
      ...{ files, commands: options.ports.commands, enrolment },
      fingerprint: identity.fingerprint,
      isJoinedOrJoining: options.node.isJoinedOrJoining,
    }),
    ...operatorRunnables({ ...options, etcd: () => driver.etcdMembers() }),
    address: ownAddress(options),
    ownership: ownershipRunnable({
      job,
      ownerKeys,
      localControlPlane: values.localControlPlane,
      clock,
      save: (ownership, signal) => driver.saveOwnership(ownership, signal),
      load: (signal) => driver.loadOwnership(signal),
    }),
    ...workloads(options, driver),
  };
}

function ownAddress({ ports, node, retryNow: hurry }: RunnablesOptions): Runnable {
  const { job, values, phases } = node;
  return ownAddressRunnable({
    ...{ phases, clock: ports.clock, retryNow: hurry },
    addresses: () => ports.machine.addresses(),
    boundAddress: () => {
      const accepted = job.accepted.peek();
      const begun = accepted.set ? accepted.value.nodeAddress : undefined;
      return currentValue(values.clusterMembership)?.nodeAddress ?? begun;
    },
    isInitInProgress: () => job.isInProgress(),
  });
}

function createTicketRenewal({ ports, node }: RunnablesOptions, driver: MachineControlPlaneDriver): Renewal {
  const { state, values, joinClient, ownAddress, job } = node;
  return ticketRenewal({
    ...{ files: ports.files, state, values, joinClient, ownAddress },
    isCreatingCluster: () => job.isInProgress(),
    onRenewed: async (membership, signal) => {
      if (currentValue(values.localControlPlane) !== undefined) await driver.startCurator(membership, signal);
    },
  });
}

function machineService({ ports, node }: RunnablesOptions): MachineServicePorts {
  const { enrolment, joinClient, operatorEndpoints: directed, phases, values, identity, recovery } = node;
  const { kubernetesStatus, localRoles } = values;
  const { fingerprint, nodeId } = identity;
  return {
    ...{
      enrolment,
      joinClient,
      operatorEndpoints: directed,
      phases,
      kubernetesStatus,
      localRoles,
      fingerprint,
      nodeId,
    },
    recovery,
    clock: ports.clock,
  };
}

function createDriver({ ports, node }: RunnablesOptions): MachineControlPlaneDriver {
  const { files, units, commands, clock, log, machine } = ports;
  const { identity, owners, ownAddress, state, blobStores: stores, values } = node;
  return new MachineControlPlaneDriver(
    { files, commands, units, clock, log: log.child('consensus'), state, retire: retirePorts(ports) },
    {
      machine: identity,
      evidence: node.evidence,
      owners,
      etcdBinary: `${PATHS.bin}/etcd`,
      ownAddress,
      addresses: () => machine.addresses(),
      blobStores: stores,
      isKeyChangePending: () => node.keys.isActivationPending(),
      certificateMinutes: () => certificateLifetimes(values).controlPlaneMinutes,
      nodeMinutes: () => certificateLifetimes(values).nodeMinutes,
      membership: () => currentValue(values.clusterMembership),
      directory: () => currentValue(values.clusterDirectory),
    },
  );
}

function retirePorts({ files, commands, clock, log }: AgentPorts): RetirePorts {
  return {
    files,
    commands,
    clock,
    log: log.child('kubernetes'),
    checkpoints: new StepCheckpoints(files),
    isListening,
  };
}

/** The workers that run something on this machine. */
function workloads(
  { ports, node }: RunnablesOptions,
  driver: MachineControlPlaneDriver,
): Readonly<Record<string, Runnable>> {
  const { files, units, commands, log } = ports;
  const { values, phases, host, ownAddress, sources } = node;
  const reads = values;
  const apiServerEtcd = {
    endpoint: `https://127.0.0.1:${ETCD_PORTS.kubernetes.client}`,
    ...consensusLayout(AGENT_PATHS.state, 'kubernetes').user('apiserver'),
  };
  const kubeadm = new Kubeadm({ commands, log: log.child('kubeadm') });
  const writes = { ...values, bootstrapSpent: () => values.bootstrapData.set(undefined) };
  const signer = signerDriver({ files, commands, units, cluster: () => signerClusterOf(node) });
  const kubernetes = { ...retirePorts(ports), units, kubeadm, probe: probeReadyz, probeNode };
  return {
    ...keyRotationRunnables({ ports, node, driver, signer, kubernetes, etcd: apiServerEtcd }),
    components: componentsWorker({
      reads,
      writes,
      phases,
      host,
      ports: { ...sources, commands, files, units },
    }),
    balancer: balancerWorker({
      reads,
      ports: { files, units, clock: ports.clock, balancerHealth: balancerHealth(ports) },
    }),
    relay: relayWorker({ reads, ports: { files, units, clock: ports.clock } }),
    signer: signerWorker({ reads, driver: signer, clock: ports.clock }),
    marks: strayTaintsWorker({ reads, curators: node.curators, clock: ports.clock, commands }),
    controlplane: controlPlaneWorker({ reads, writes, phases, driver }),
    kubernetes: kubernetesWorker({
      reads,
      writes,
      phases,
      host,
      nodeId: node.identity.nodeId,
      ownAddress,
      apiServerEtcd,
      isCreatingCluster: () => node.job.isInProgress(),
      isKeyChangePending: () => node.keys.isActivationPending(),
      ports: kubernetes,
    }),
  };
}

function balancerHealth({ clock }: AgentPorts) {
  return (signal: AbortSignal) => readBalancerHealth(APILB_HEALTH_SOCKET, { clock, signal });
}

function initService({ ports, node, version, retryNow: hurry }: RunnablesOptions): InitServicePorts {
  const { clock, machine } = ports;
  const { job, phases, uploads, identity, enrolment } = node;
  return {
    job,
    phases,
    clock,
    machine,
    blobs: uploads,
    evidence: node.evidence,
    agentVersion: version,
    fingerprint: identity.fingerprint,
    reportChecks: node.reportChecks,
    retryNow: hurry,
    enrolmentState: () => {
      const status = enrolment.status.peek();
      return status.set ? status.value.state : 'New';
    },
    enrolmentFailure: () => {
      const status = enrolment.status.peek();
      return status.set && status.value.state === 'Failed' ? status.value.reason : undefined;
    },
  };
}
