import { Namespace } from '../../internal/etcd/index.ts';
import { CLUSTER_PREFIX } from '../../internal/records/index.ts';
import type { Runnable } from '../../internal/supervisor/index.ts';
import { nodeKeysWorker, rotationWorker } from '../keyrotation/index.ts';
import type { ControlPlanePorts, EtcdClientFiles } from '../kubernetes/index.ts';
import type { SignerDriver } from '../roleserve/index.ts';
import type { AgentPorts } from './agent-ports.ts';
import {
  createKeyRotationDriver,
  type MachineControlPlaneDriver,
  readInitialKeys,
} from '../controlplane/index.ts';
import type { OpenNode } from './open-node.ts';

export interface KeyRotationRunnablesOptions {
  readonly ports: AgentPorts;
  readonly node: OpenNode;
  readonly driver: MachineControlPlaneDriver;
  readonly signer: SignerDriver;
  readonly kubernetes: ControlPlanePorts;
  readonly etcd: EtcdClientFiles;
}

/** This node's part in replacing the keys that control planes share. */
export function keyRotationRunnables(
  parts: KeyRotationRunnablesOptions,
): Readonly<Record<'keys' | 'advance', Runnable>> {
  const { ports, node, driver, signer, kubernetes, etcd } = parts;
  const { files, clock } = ports;
  const { values, curators, joinClient, host, ownAddress, keys: store } = node;
  const { nodeId } = node.identity;
  const refreshSigner = async (signal: AbortSignal): Promise<void> => {
    await signer.start(signal);
  };
  return {
    keys: nodeKeysWorker({
      reads: values,
      writes: node.claimWriters('localKeys'),
      ...{ curators, store, clock },
      driver: createKeyRotationDriver({
        ...{ files, clock, store, values, joinClient, refreshSigner },
        controlPlane: driver,
        kubernetes: { ports: kubernetes, host, nodeId, ownAddress, etcd },
      }),
    }),
    advance: rotationWorker({
      ...{ store, clock, nodeId, refreshSigner },
      clusterKeys: values.clusterKeys,
      etcd: () => driver.etcd && new Namespace(driver.etcd, CLUSTER_PREFIX),
      readInitialKeys: () => readInitialKeys(files),
    }),
  };
}
