import type { KubernetesFacts } from '../../internal/doctor/index.ts';
import {
  listBudgets,
  listNodes,
  listPods,
  listReleases,
  readinessOf,
  type KubeClient,
  type KubeNode,
  type KubePod,
} from '../../internal/kube/index.ts';
import { printable } from '../../internal/printable/index.ts';
import { isPodReady, podReason } from '../charts/index.ts';

/** Reads what the Kubernetes API knows. @throws KubeError */
export async function readKubernetes(client: KubeClient, signal: AbortSignal): Promise<KubernetesFacts> {
  const [nodes, pods, budgets, releases] = await Promise.all([
    listNodes(client, signal),
    listPods(client, { signal }),
    listBudgets(client, signal),
    listReleases(client, signal),
  ]);
  return {
    nodes: nodes.map(nodeFrom),
    pods: pods.map(podFrom),
    budgets: budgets.map(({ metadata, status }) => ({
      namespace: metadata.namespace,
      name: metadata.name,
      expectedPods: status.expectedPods,
      healthyPods: status.currentHealthy,
      allowed: status.disruptionsAllowed,
    })),
    releases: releases.map((each) => ({ ...each })),
  };
}

function nodeFrom(node: KubeNode): KubernetesFacts['nodes'][number] {
  const { ready: isReady, why } = readinessOf(node);
  const { conditions, nodeInfo } = node.status;
  return {
    ...{ name: node.metadata.name, isReady, why },
    pressures: conditions
      .filter(({ type, status }) => type.endsWith('Pressure') && status === 'True')
      .map(({ type }) => printable(type)),
    kubeletVersion: printable(nodeInfo.kubeletVersion),
  };
}

function podFrom(pod: KubePod): KubernetesFacts['pods'][number] {
  const { namespace, name, labels, creationTimestamp } = pod.metadata;
  const isReady = isPodReady(pod);
  return {
    ...{ namespace, name, isReady, node: pod.spec.nodeName },
    app: printable(labels['k8s-app'] ?? ''),
    createdMs: Date.parse(creationTimestamp) || 0,
    why: isReady ? '' : printable(podReason(pod)),
  };
}
