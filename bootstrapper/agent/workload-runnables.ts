import { currentValue } from '../../internal/event/index.ts';
import type { Runnable } from '../../internal/supervisor/index.ts';
import { consensusLayout, ETCD_PORTS } from '../consensus/index.ts';
import { createKeyRotationDriver, readSharedKeys, signerDriver } from '../controlplane/index.ts';
import { nodeKeysWorker, rotationWorker } from '../keyrotation/index.ts';
import {
  APILB_HEALTH_SOCKET,
  Kubeadm,
  probeNode,
  probeReadyz,
  readBalancerHealth,
  readFirstEncryption,
} from '../kubernetes/index.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';
import {
  authenticationWorker,
  balancerWorker,
  componentsWorker,
  exporterWorker,
  controlPlaneWorker,
  kubernetesWorker,
  relayWorker,
  signerWorker,
  strayTaintsWorker,
  nodeLabelsWorker,
} from '../roleserve/index.ts';
import { backupCopyRunnable, backupRunnable } from './backup-runnable.ts';
import { retirePorts } from './create-control-plane-driver.ts';
import type { Agent } from './agent-parts.ts';
import { keepOwnShare } from './statedisk/disk-share-worker.ts';

/** The workers that run the workloads of a role on this machine. */
export function workloadRunnables(agent: Agent): Readonly<Record<string, Runnable>> {
  const { clock, log, valueStore, ownerKeys, reads, keys, rollback } = agent;
  const signer = signerDriver(agent, { ownerKeys, values: reads, rollback });
  const kubeadm = new Kubeadm({ ...agent, log: log.child('kubeadm') });
  const kubernetes = {
    ...{ ...agent, ...retirePorts(agent), probe: probeReadyz, probeNode, kubeadm },
    apiServerEtcd: {
      endpoint: `https://127.0.0.1:${ETCD_PORTS.kubernetes.client}`,
      ...consensusLayout(AGENT_PATHS.state, 'kubernetes').user('apiserver'),
    },
  };
  return {
    ...keyRotation(agent, signer, kubernetes),
    components: componentsWorker({
      ...{ ...agent, ports: { ...agent, ...agent.components } },
      writes: valueStore.claim('localComponents'),
    }),
    balancer: balancerWorker({
      reads,
      ports: {
        ...agent,
        balancerHealth: (signal) => readBalancerHealth(APILB_HEALTH_SOCKET, { clock, signal }),
      },
    }),
    exporter: exporterWorker(agent),
    relay: relayWorker({ reads, ports: agent }),
    backups: backupRunnable(agent),
    'backup-copies': backupCopyRunnable(agent),
    signer: signerWorker({ ...agent, driver: signer }),
    straytaints: strayTaintsWorker(agent),
    nodelabels: nodeLabelsWorker(agent),
    authentication: authenticationWorker(agent),
    controlplane: controlPlaneWorker({
      ...agent,
      writes: valueStore.claim('localControlPlane'),
      onClusterCreated: (state) => agent.membership.created(state),
      keepOwnShare: (say, signal) => keepOwnShare(agent, say, signal),
    }),
    kubernetes: kubernetesWorker({
      ...{ ...kubernetes, ports: kubernetes },
      writes: valueStore.claim('kubernetesStatus'),
      isKeyChangePending: () => keys.isActivationPending(),
    }),
  };
}

type Kubernetes = Agent &
  Pick<Parameters<typeof kubernetesWorker>[0], 'apiServerEtcd'> &
  Parameters<typeof kubernetesWorker>[0]['ports'];

/** This node's part in a rotation of the keys that all control planes share. */
function keyRotation(
  agent: Agent,
  signer: ReturnType<typeof signerDriver>,
  kubernetes: Kubernetes,
): Readonly<Record<'keys' | 'advance', Runnable>> {
  const { files, valueStore, driver, reads, keys: store, ownerKeys, clock } = agent;
  const refreshSigner = async (signal: AbortSignal): Promise<void> => {
    await signer.start(signal);
  };
  return {
    keys: nodeKeysWorker({
      ...{ ...agent, store, writes: valueStore.claim('localKeys') },
      driver: createKeyRotationDriver({
        ...{ ...agent, store, values: reads, refreshSigner, controlPlane: driver },
        kubernetesEtcd: () => driver.etcdMembers()?.kubernetes,
        kubernetes: { ...kubernetes, ports: kubernetes, etcd: kubernetes.apiServerEtcd },
      }),
    }),
    advance: rotationWorker({
      ...{ ...agent, store, refreshSigner, clusterKeys: reads.clusterKeys },
      etcd: () => driver.records,
      readSharedKeys: () => readSharedKeys(files, store),
      readFirstEncryption: () => readFirstEncryption(files),
      trust: () => {
        const membership = currentValue(reads.clusterMembership);
        if (membership === undefined) return undefined;
        const { clusterId, epoch } = membership;
        return { ownerKeys, clusterId, epoch, nowMs: clock.nowMs() };
      },
    }),
  };
}
