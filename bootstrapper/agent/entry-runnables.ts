import { currentValue } from '../../internal/event/index.ts';
import type { Runnable } from '../../internal/supervisor/index.ts';
import type { InitServicePorts } from '../initserver/index.ts';
import {
  AGENT_SOCKET,
  agentSocketRunnable,
  consoleRunnable,
  initServerRunnable,
  type MachineServicePorts,
} from '../machineservice/index.ts';
import { outcomeRunnable, ownershipRunnable } from '../ownership/index.ts';
import { ownAddressRunnable } from '../preflight/index.ts';
import type { Wiring } from './wiring.ts';

/**
 * The runnables of a machine that is not a member yet: the init port, the agent socket, the fingerprint on
 * the console.
 */
export function entryRunnables(wiring: Wiring): Readonly<Record<string, Runnable>> {
  const { ports, node, driver } = wiring;
  const { files, clock, commands } = ports;
  const { job, enrolment, isJoinedOrJoining } = node.entry;
  const { identity, evidence, ownerKeys } = node.machine;
  const { kubernetesStatus, localControlPlane } = node.values;
  const service = machineService(wiring);
  return {
    initserver: initServerRunnable({
      ...{ job, enrolment, identity, evidence, ownerKeys, clock, isJoinedOrJoining },
      service: initService(wiring),
      machineService: service,
    }),
    agentsocket: agentSocketRunnable(AGENT_SOCKET, { ...service, files }),
    console: consoleRunnable({
      ...{ files, commands, enrolment, isJoinedOrJoining },
      fingerprint: identity.fingerprint,
    }),
    outcome: outcomeRunnable({
      ...{ job, enrolment, kubernetesStatus, files, clock },
      saveToCluster: (initId, result, signal) => driver.saveInitResult(initId, result, signal),
    }),
    ownership: ownershipRunnable({
      ...{ job, ownerKeys, localControlPlane, clock },
      save: (ownership, signal) => driver.saveOwnership(ownership, signal),
      load: (signal) => driver.loadOwnership(signal),
    }),
    address: ownAddress(wiring),
  };
}

function ownAddress({ ports, node, retryNow }: Wiring): Runnable {
  const { job } = node.entry;
  return ownAddressRunnable({
    ...{ phases: node.storage.phases, clock: ports.clock, retryNow },
    addresses: () => ports.machine.addresses(),
    boundAddress: () =>
      currentValue(node.values.clusterMembership)?.nodeAddress ?? currentValue(job.accepted)?.nodeAddress,
    isInitInProgress: () => job.isInProgress(),
  });
}

function machineService({ ports, node }: Wiring): MachineServicePorts {
  const { fingerprint, nodeId } = node.machine.identity;
  const { operatorEndpoints, phases } = node.storage;
  const { kubernetesStatus, localRoles } = node.values;
  return {
    ...{ operatorEndpoints, phases, kubernetesStatus, localRoles, fingerprint, nodeId, clock: ports.clock },
    enrolment: node.entry.enrolment,
    joinClient: node.cluster.joinClient,
    recovery: node.orders.recovery,
  };
}

function initService({ ports, node, version, retryNow }: Wiring): InitServicePorts {
  const { clock, machine } = ports;
  const { job, uploads, enrolment } = node.entry;
  const { evidence, identity, checks } = node.machine;
  return {
    ...{ job, clock, machine, evidence, retryNow, blobs: uploads, phases: node.storage.phases },
    agentVersion: version,
    fingerprint: identity.fingerprint,
    reportChecks: (query) => checks.report(query),
    enrolmentState: () => currentValue(enrolment.status)?.state ?? 'New',
    enrolmentFailure: () => {
      const status = currentValue(enrolment.status);
      return status?.state === 'Failed' ? status.reason : undefined;
    },
  };
}
