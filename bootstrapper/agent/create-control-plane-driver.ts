import { MachineControlPlaneDriver } from '../controlplane/index.ts';
import { isListening } from '../../internal/rpc/index.ts';
import { type RetirePorts, StepCheckpoints } from '../kubernetes/index.ts';
import { certificateLifetimes } from '../renewal/index.ts';
import type { AgentPorts } from './agent-ports.ts';
import type { ConnectedParts } from './agent-parts.ts';

/** Creates the driver that runs etcd, curator and join service on this machine. */
export function createControlPlaneDriver(parts: ConnectedParts): MachineControlPlaneDriver {
  const { reads, machine, identity, keys, log } = parts;
  return new MachineControlPlaneDriver(
    { ...parts, log: log.child('consensus'), retire: retirePorts(parts) },
    {
      ...{ ...parts, machine: identity, values: reads, blobStores: parts.blobRoots, snapshots: parts.blobs },
      addresses: () => machine.addresses(),
      isKeyChangePending: () => keys.isActivationPending(),
      lifetimes: () => certificateLifetimes(reads),
    },
  );
}

/** Ports (injected dependencies) for the removal of the Kubernetes control plane from this machine. */
export function retirePorts(ports: AgentPorts): AgentPorts & RetirePorts {
  const checkpoints = new StepCheckpoints(ports.files);
  return { ...ports, log: ports.log.child('kubernetes'), checkpoints, isListening };
}
