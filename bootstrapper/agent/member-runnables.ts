import { currentValue } from '../../internal/event/index.ts';
import { familiesOf } from '../../internal/config/index.ts';
import { describeError } from '../../internal/errors/index.ts';
import { MINUTE_MS, readAtMostEvery } from '../../internal/clock/index.ts';
import { readStorageProtection } from '../../internal/platform/index.ts';
import type { NodeNetwork } from '../../internal/preflight/index.ts';
import type { Runnable } from '../../internal/supervisor/index.ts';
import { configurationWorker } from '../configuration/index.ts';
import { evidenceSocketRunnable } from '../attest/index.ts';
import { readKnownClusterCa } from '../credentials/index.ts';
import { collateralWorker } from '../collateral/index.ts';
import {
  API_SERVICE_NAME,
  apiEndpointOf,
  ControlPlaneHealth,
  createHealthProbe,
  PATHS,
  serviceAddressesIn,
} from '../kubernetes/index.ts';
import {
  lookUpName,
  NameLookupProbe,
  createMachineCheck,
  hasPodNetwork,
  answeringServices,
  HostServices,
  hostServices,
  HungServices,
  StaticPodLogs,
  withHung,
} from '../hosthealth/index.ts';
import {
  createCertificateExpiryLister,
  KubernetesEtcdHealth,
  statusPushWorker,
  type StatusFacts,
} from '../nodestatus/index.ts';
import { DATA_DIRECTORIES } from '../nodestate/index.ts';
import {
  controlPlaneRenewals,
  kubeletServingRenewal,
  renewalWorker,
  ticketRenewal,
  type Renewal,
} from '../renewal/index.ts';
import { removedMachinesWorker, unmergedProblems } from '../removedmachines/index.ts';
import { proxyWorker, readRegistryCredentials, registriesWorker } from '../registries/index.ts';
import { directoryWorker, memberWorker, roleFetchWorker } from '../roleserve/index.ts';
import type { Agent } from './agent-parts.ts';
import { diskShareWorker } from './statedisk/disk-share-worker.ts';
import { rotatedKeysRunnable } from './statedisk/rotation-order.ts';

/**
 * The runnables of every member: they follow the node's roles and the list of control planes, report the
 * node's status and renew its certificates.
 */
export function memberRunnables(agent: Agent): Readonly<Record<string, Runnable>> {
  const { membership, state, reads } = agent;
  const hung = new HungServices(agent, answeringServices());
  const diskOptions = {
    ...agent,
    holdsKeys: () => agent.keys.holdsKeys(),
    readKnownCa: () => readKnownClusterCa(agent),
  };
  return {
    rolefetch: roleFetchWorker({
      ...agent,
      saveRoles: (roles) => state.roles.save(roles),
      onRolesAssigned: (roles) => membership.assigned(roles),
    }),
    directory: directoryWorker({
      ...agent,
      writes: agent.valueStore.claim(
        'clusterDirectory',
        'clusterRelays',
        'clusterKeys',
        'clusterConfiguration',
        'clusterRemovals',
      ),
      saved: state.directory,
      savedRelays: state.relays,
    }),
    configuration: configurationWorker({
      ...agent,
      writes: agent.valueStore.claim('signedConfiguration'),
      floors: state.configurationFloors,
    }),
    removals: removedMachinesWorker({
      ...agent,
      writes: agent.valueStore.claim('unmergedRemovals'),
      saved: state.removals,
    }),
    registries: registriesWorker({
      ...agent,
      root: PATHS.registries,
      readCredentials: (signal) =>
        readRegistryCredentials(
          agent.files,
          apiEndpointOf(currentValue(agent.reads.clusterSettings) ?? {}),
          signal,
        ),
    }),
    'disk-share': diskShareWorker(diskOptions),
    'disk-keys': rotatedKeysRunnable(diskOptions),
    proxy: proxyWorker(agent),
    evidence: evidenceSocketRunnable(agent),
    collateral: collateralWorker({ ...agent, cache: agent.collateral }),
    'etcd-content': agent.etcdContent.run,
    'hung-services': memberWorker(agent, (scope) => {
      const isControlPlane = () => currentValue(reads.localRoles)?.has('ConsensusMember') === true;
      scope.run('watch', (child) => hung.watch(child, isControlPlane));
    }),
    statuspush: statusPushWorker({ ...agent, facts: statusFacts(agent, hung) }),
    renewal: renewalWorker({ ...agent, renewals: renewals(agent) }),
  };
}

function statusFacts(agent: Agent, hung: HungServices): StatusFacts {
  const { reads, files, clock, machine, driver, keys } = agent;
  const kubernetesEtcd = new KubernetesEtcdHealth({
    etcd: () => driver.etcdMembers()?.kubernetes,
    controlPlanes: () => (currentValue(reads.clusterDirectory) ?? []).map(({ nodeId }) => nodeId),
    clock,
  });
  const podLogs = new StaticPodLogs(agent);
  const health = new ControlPlaneHealth({
    ...{ files, clock, probe: createHealthProbe() },
    lastError: (name, signal) => podLogs.lastError(name, signal),
  });
  const services = new HostServices(agent, hostServices());
  const checkMachine = createMachineCheck(agent, {
    allowsCgroupV1: !agent.host.failCgroupV1,
    node: () => networkOfNode(agent),
  });
  let unreadable = '';
  const lookups = new NameLookupProbe({ clock, lookUp: lookUpName }, API_SERVICE_NAME);
  return {
    ...agent,
    bootId: () => machine.bootId(),
    certificates: createCertificateExpiryLister(files, clock),
    holdsKeys: () => keys.holdsKeys(),
    oldDiskMs: () => agent.rollback.foundMs,
    directories: readAtMostEvery(MINUTE_MS, clock, () =>
      readStorageProtection(
        files,
        DATA_DIRECTORIES.map(({ path }) => path),
      ),
    ),
    controlPlane: (query, signal) => health.check(query, signal),
    machine: async (isControlPlane, signal) => {
      const [found, problems, network] = await Promise.all([
        services.findProblems(isControlPlane, signal),
        checkMachine(),
        agent.podNetwork.check(signal),
      ]);
      const { serviceSubnet, networkBackend } = currentValue(reads.clusterSettings) ?? {};
      const hasPods = hasPodNetwork(network, networkBackend);
      const dns = hasPods && serviceSubnet ? serviceAddressesIn(serviceSubnet, 'dns')[0] : undefined;
      return {
        services: withHung(hung.problems(), found),
        problems: [...problems, ...unmergedOf(agent)],
        podNetwork: network,
        nameLookup: lookups.check(dns, signal),
      };
    },
    onUnreadableMachine: (error) => {
      const reason = describeError(error);
      if (reason !== unreadable) agent.log.warn('the state of this machine cannot be read', { error });
      unreadable = reason;
    },
    kubernetesEtcd: (signal) => kubernetesEtcd.check(signal),
    etcdContents: () => agent.etcdContent.contents(),
  };
}

/** The members that this node knows as removed. */
function unmergedOf({ reads }: Agent): ReturnType<typeof unmergedProblems> {
  const name = currentValue(reads.clusterMembership)?.nodeName ?? '';
  return unmergedProblems(currentValue(reads.unmergedRemovals) ?? [], name);
}

/** A cluster without IPv6 may be older than the check of families, so nothing is checked there. */
function networkOfNode({ reads, machine }: Agent): NodeNetwork {
  const settings = currentValue(reads.clusterSettings);
  const found = familiesOf(settings?.serviceSubnet ?? '');
  return {
    needsWireguard: settings?.networkBackend === 'wireguard',
    families: found.includes('IPv6') ? found : [],
    addresses: machine.addresses(),
    configuredAddress: currentValue(reads.clusterMembership)?.nodeAddress,
  };
}

function renewals(agent: Agent): Readonly<Record<string, Renewal>> {
  const { reads, driver, log } = agent;
  return {
    ticket: ticketRenewal({
      ...agent,
      needsTicket: agent.curators.needsTicket,
      onRenewed: async (membership, signal) => {
        if (currentValue(reads.localControlPlane) !== undefined)
          await driver.startCurator(membership, signal);
      },
    }),
    kubelet: kubeletServingRenewal(agent),
    ...controlPlaneRenewals({ ...agent, log: log.child('renewal') }),
  };
}
