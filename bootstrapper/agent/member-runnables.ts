import { EVIDENCE_SOCKET } from '../../internal/atls/evidencesocket/index.ts';
import { currentValue } from '../../internal/event/index.ts';
import type { Runnable } from '../../internal/supervisor/index.ts';
import { evidenceSocketRunnable } from '../attest/index.ts';
import { collateralWorker } from '../collateral/index.ts';
import { ControlPlaneHealth, createHealthProbe } from '../kubernetes/index.ts';
import {
  createCertificateExpiryLister,
  KubernetesEtcdHealth,
  statusPushWorker,
  type StatusFacts,
} from '../nodestatus/index.ts';
import {
  controlPlaneRenewals,
  kubeletServingRenewal,
  renewalWorker,
  ticketRenewal,
  type Renewal,
} from '../renewal/index.ts';
import { directoryWorker, roleFetchWorker } from '../roleserve/index.ts';
import { JOINSERVICE_USER } from '../units/index.ts';
import type { Wiring } from './wiring.ts';

/**
 * The runnables of every member: they follow roles and directory, report the node's status and renew its
 * certificates.
 */
export function memberRunnables(wiring: Wiring): Readonly<Record<string, Runnable>> {
  const { ports, node } = wiring;
  const { files, commands, clock, random } = ports;
  const { values: reads, membership, storage } = node;
  const { curators } = node.cluster;
  const { state } = storage;
  return {
    rolefetch: roleFetchWorker({
      ...{ reads, curators },
      saveRoles: (roles) => state.roles.save(roles),
      onRolesAssigned: (roles) => membership.assigned(roles),
    }),
    directory: directoryWorker({
      ...{ reads, curators },
      writes: node.valueStore.claim('clusterDirectory', 'clusterRelays', 'clusterKeys'),
      saved: state.directory,
      savedRelays: state.relays,
    }),
    evidence: evidenceSocketRunnable(
      { path: EVIDENCE_SOCKET, user: JOINSERVICE_USER },
      { evidence: node.machine.evidence, files, commands, clock },
    ),
    collateral: collateralWorker({ reads, curators, clock, random, cache: storage.collateral }),
    statuspush: statusPushWorker({ reads, curators, clock, facts: statusFacts(wiring) }),
    renewal: renewalWorker({
      ...{ reads, clock, renewals: renewals(wiring) },
      onMembershipRenewed: (renewed) => membership.renewed(renewed),
    }),
  };
}

function statusFacts({ ports, node, driver, version, tree }: Wiring): StatusFacts {
  const { files, clock, machine } = ports;
  const kubernetesEtcd = new KubernetesEtcdHealth({
    etcd: () => driver.etcdMembers()?.kubernetes,
    controlPlanes: () => (currentValue(node.values.clusterDirectory) ?? []).map(({ nodeId }) => nodeId),
    clock,
  });
  const health = new ControlPlaneHealth({ files, clock, probe: createHealthProbe() });
  return {
    agentVersion: version,
    tree,
    bootId: () => machine.bootId(),
    certificates: createCertificateExpiryLister(files, clock),
    holdsKeys: () => node.storage.keys.holdsKeys(),
    controlPlane: (query, signal) => health.check(query, signal),
    kubernetesEtcd: (signal) => kubernetesEtcd.check(signal),
  };
}

function renewals({ ports, node, driver }: Wiring): Readonly<Record<string, Renewal>> {
  const { files, units, clock, log } = ports;
  const { values, storage, entry, cluster } = node;
  const { job, ownAddress } = entry;
  return {
    ticket: ticketRenewal({
      ...{ files, values, ownAddress, state: storage.state, joinClient: cluster.joinClient },
      isCreatingCluster: () => job.isInProgress(),
      onRenewed: async (membership, signal) => {
        if (currentValue(values.localControlPlane) !== undefined)
          await driver.startCurator(membership, signal);
      },
    }),
    kubelet: kubeletServingRenewal({ files, units }),
    ...controlPlaneRenewals({
      ...{ files, values, driver, nowMs: () => clock.nowMs(), log: log.child('renewal') },
    }),
  };
}
