import { Namespace } from '../../internal/etcd/index.ts';
import { CLUSTER_PREFIX } from '../../internal/records/index.ts';
import type { Runnable } from '../../internal/supervisor/index.ts';
import { consensusLayout, ETCD_PORTS } from '../consensus/index.ts';
import {
  createKeyRotationDriver,
  readInitialKeys,
  signerClusterOf,
  signerDriver,
} from '../controlplane/index.ts';
import { nodeKeysWorker, rotationWorker } from '../keyrotation/index.ts';
import {
  APILB_HEALTH_SOCKET,
  type ControlPlanePorts,
  type EtcdClientFiles,
  Kubeadm,
  probeNode,
  probeReadyz,
  readBalancerHealth,
  type RetirePorts,
} from '../kubernetes/index.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';
import {
  balancerWorker,
  componentsWorker,
  controlPlaneWorker,
  kubernetesWorker,
  relayWorker,
  type SignerDriver,
  signerWorker,
  strayTaintsWorker,
} from '../roleserve/index.ts';
import type { AgentPorts } from './agent-ports.ts';
import { retirePorts } from './create-control-plane-driver.ts';
import type { Wiring } from './wiring.ts';

/** What the workloads of this machine share. */
interface Workloads {
  readonly apiServerEtcd: EtcdClientFiles;
  readonly signer: SignerDriver;
  readonly kubernetes: ControlPlanePorts & RetirePorts;
}

/** The workers that run the workloads of a role on this machine. */
export function workloadRunnables(wiring: Wiring): Readonly<Record<string, Runnable>> {
  const { ports, node, driver } = wiring;
  const { files, units, commands, clock } = ports;
  const { values: reads, valueStore, membership, cluster } = node;
  const { phases } = node.storage;
  const workloads = createWorkloads(wiring);
  return {
    ...keyRotation(wiring, workloads),
    components: componentsWorker({
      ...{ reads, phases, host: node.machine.host },
      writes: valueStore.claim('localComponents'),
      ports: { ...cluster.components, commands, files, units },
    }),
    balancer: balancerWorker({
      reads,
      ports: { files, units, clock, balancerHealth: balancerHealth(ports) },
    }),
    relay: relayWorker({ reads, ports: { files, units, clock } }),
    signer: signerWorker({ reads, clock, driver: workloads.signer }),
    straytaints: strayTaintsWorker({ reads, clock, commands, curators: cluster.curators }),
    controlplane: controlPlaneWorker({
      ...{ reads, phases, driver },
      writes: valueStore.claim('localControlPlane'),
      onClusterCreated: (state) => membership.created(state),
    }),
    kubernetes: kubernetesWorker({
      ...{ reads, phases, host: node.machine.host, apiServerEtcd: workloads.apiServerEtcd },
      writes: valueStore.claim('kubernetesStatus'),
      nodeId: node.machine.identity.nodeId,
      ownAddress: node.entry.ownAddress,
      isCreatingCluster: () => node.entry.job.isInProgress(),
      isKeyChangePending: () => node.storage.keys.isActivationPending(),
      ports: workloads.kubernetes,
    }),
  };
}

function createWorkloads({ ports, node }: Wiring): Workloads {
  const { files, units, commands, log } = ports;
  const cluster = () => signerClusterOf({ ownerKeys: node.machine.ownerKeys, values: node.values });
  return {
    apiServerEtcd: {
      endpoint: `https://127.0.0.1:${ETCD_PORTS.kubernetes.client}`,
      ...consensusLayout(AGENT_PATHS.state, 'kubernetes').user('apiserver'),
    },
    signer: signerDriver({ files, commands, units, cluster }),
    kubernetes: {
      ...{ ...retirePorts(ports), units, probe: probeReadyz, probeNode },
      kubeadm: new Kubeadm({ commands, log: log.child('kubeadm') }),
    },
  };
}

/** The part of this node in rotating the keys that all control planes share. */
function keyRotation(
  { ports, node, driver }: Wiring,
  { signer, kubernetes, apiServerEtcd }: Workloads,
): Readonly<Record<'keys' | 'advance', Runnable>> {
  const { files, clock } = ports;
  const { values, valueStore, machine } = node;
  const { curators, joinClient } = node.cluster;
  const { nodeId } = machine.identity;
  const store = node.storage.keys;
  const refreshSigner = async (signal: AbortSignal): Promise<void> => {
    await signer.start(signal);
  };
  return {
    keys: nodeKeysWorker({
      ...{ reads: values, curators, store, clock },
      writes: valueStore.claim('localKeys'),
      driver: createKeyRotationDriver({
        ...{ files, clock, store, values, joinClient, refreshSigner, controlPlane: driver },
        kubernetes: {
          ...{ ports: kubernetes, host: machine.host, nodeId, etcd: apiServerEtcd },
          ownAddress: node.entry.ownAddress,
        },
      }),
    }),
    advance: rotationWorker({
      ...{ store, clock, nodeId, refreshSigner, clusterKeys: values.clusterKeys },
      etcd: () => driver.etcd && new Namespace(driver.etcd, CLUSTER_PREFIX),
      readInitialKeys: () => readInitialKeys(files),
    }),
  };
}

function balancerHealth({ clock }: AgentPorts) {
  return (signal: AbortSignal) => readBalancerHealth(APILB_HEALTH_SOCKET, { clock, signal });
}
