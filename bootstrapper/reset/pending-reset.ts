import { dirname } from 'node:path';
import type { Provisioning } from '../../internal/config/index.ts';
import { ETCD_INSTANCES, PROOF_ETCD_UNIT, PROOF_RESTORE_UNIT } from '../consensus/index.ts';
import {
  EXPORTER_UNIT,
  JOINSERVICE_UNIT,
  RELAY_UNIT,
  SIGNER_STATE_DIRECTORY,
  SIGNER_UNIT,
} from '../units/index.ts';
import {
  APILB_UNIT,
  CONTAINERD_UNIT,
  KUBELET_UNIT,
  METADATA_GUARD_UNIT,
  PATHS,
} from '../kubernetes/index.ts';
import { type ResetOptions, type ResetPorts, runReset } from './run-reset.ts';
import { stopUnits, type StopPorts } from './stop-units.ts';
import type { MachinePort } from '../../internal/platform/index.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';

/** Directories outside the agent's state that contain data of the node's workloads. */
const DIRECTORIES = [
  '/etc/kubernetes',
  '/var/lib/kubelet',
  '/run/containerd',
  '/var/lib/containerd',
  '/var/lib/cni',
  '/run/flannel',
  '/etc/cni/net.d',
  '/etc/cluster-apilb',
  '/etc/cluster-relay',
  '/etc/cluster-exporter',
  '/etc/cluster/joinservice.json',
  '/etc/cluster/signer.json',
  SIGNER_STATE_DIRECTORY,
  dirname(PATHS.auditLog),
  '/var/log/pods',
  '/var/log/containers',
  AGENT_PATHS.backupProof,
];
/** The last one is the unit of earlier releases, which had only one etcd. */
const ETCD_UNITS = [...Object.values(ETCD_INSTANCES).map(({ unit }) => unit), 'cluster-etcd.service'];
/** The links of containers, and those that flannel creates with each of its backends. */
const LINKS = ['cni0', 'flannel.1', 'flannel-v6.1', 'flannel-wg', 'flannel-wg-v6'];
/** The protocol of the routes that the network chart adds with WireGuard (cli/charts/flannel). */
const ROUTE_PROTOCOL = 109;
const WORKLOADS = {
  unitsToStop: [
    ...[KUBELET_UNIT, METADATA_GUARD_UNIT, APILB_UNIT, RELAY_UNIT, EXPORTER_UNIT],
    ...[JOINSERVICE_UNIT, SIGNER_UNIT, PROOF_RESTORE_UNIT, PROOF_ETCD_UNIT, ...ETCD_UNITS],
  ],
  runtimeUnit: CONTAINERD_UNIT,
};

/** Carries out a reset request that is on disk. Called before the agent opens anything else. */
export async function runPendingReset(
  ports: ResetPorts & { readonly machine: Pick<MachinePort, 'bootId'> },
  options: Pick<ResetOptions, 'stateDisk' | 'signal'> & { readonly provisioning: Pick<Provisioning, 'tpm'> },
): ReturnType<typeof runReset> {
  const { provisioning, stateDisk, signal } = options;
  const { log, machine } = ports;
  return runReset(
    { ...ports, log: log.child('reset') },
    {
      paths: AGENT_PATHS,
      ...WORKLOADS,
      directoriesToRemove: DIRECTORIES,
      linksToRemove: LINKS,
      routeProtocol: ROUTE_PROTOCOL,
      registries: PATHS.registries,
      hasLockRegister: provisioning.tpm.kind !== 'none',
      bootId: await machine.bootId(),
      stateDisk,
      signal,
    },
  );
}

/** Stops everything that a node runs, and deletes nothing. May be repeated. */
export async function stopWorkloads(ports: StopPorts, signal: AbortSignal): Promise<void> {
  await stopUnits(ports, { ...WORKLOADS, signal });
}
