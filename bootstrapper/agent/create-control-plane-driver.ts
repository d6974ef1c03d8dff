import { currentValue } from '../../internal/event/index.ts';
import { MachineControlPlaneDriver } from '../controlplane/index.ts';
import { isListening, PATHS, type RetirePorts, StepCheckpoints } from '../kubernetes/index.ts';
import { certificateLifetimes } from '../renewal/index.ts';
import type { AgentPorts } from './agent-ports.ts';
import type { OpenNode } from './open-node.ts';

/** The driver of etcd, curator and join service on this machine. */
export function createControlPlaneDriver({
  ports,
  node,
}: {
  readonly ports: AgentPorts;
  readonly node: OpenNode;
}): MachineControlPlaneDriver {
  const { files, units, commands, clock, log, machine } = ports;
  const { storage, values } = node;
  const { identity, evidence, owners } = node.machine;
  const { state, blobRoots, keys } = storage;
  return new MachineControlPlaneDriver(
    { files, commands, units, clock, log: log.child('consensus'), state, retire: retirePorts(ports) },
    {
      machine: identity,
      ...{ evidence, owners, blobStores: blobRoots, ownAddress: node.entry.ownAddress },
      etcdBinary: `${PATHS.bin}/etcd`,
      addresses: () => machine.addresses(),
      isKeyChangePending: () => keys.isActivationPending(),
      certificateMinutes: () => certificateLifetimes(values).controlPlaneMinutes,
      nodeMinutes: () => certificateLifetimes(values).nodeMinutes,
      membership: () => currentValue(values.clusterMembership),
      directory: () => currentValue(values.clusterDirectory),
    },
  );
}

/** Ports for removing the Kubernetes control plane from this machine. */
export function retirePorts({ files, commands, clock, log }: AgentPorts): RetirePorts {
  return {
    ...{ files, commands, clock, log: log.child('kubernetes') },
    checkpoints: new StepCheckpoints(files),
    isListening,
  };
}
