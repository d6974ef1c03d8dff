import type { KubernetesFacts } from '../../internal/doctor/index.ts';
import {
  isPodReady,
  listBudgets,
  listNodes,
  listPods,
  listReleases,
  listServersCaChanges,
  readinessOf,
  SERVERS_CA_CONFIG_MAP,
  type KubeClient,
  type KubeNode,
  type KubePod,
} from '../../internal/kube/index.ts';
import { printable } from '../../internal/printable/index.ts';
import { podReason } from '../charts/index.ts';

/** Reads what the Kubernetes API knows. @throws KubeError */
export async function readKubernetes(client: KubeClient, signal: AbortSignal): Promise<KubernetesFacts> {
  const [nodes, pods, budgets, releases, serversCas] = await Promise.all([
    listNodes(client, signal),
    listPods(client, { signal }),
    listBudgets(client, signal),
    listReleases(client, signal),
    listServersCaChanges(client, signal),
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
    serversCas: serversCas.map((each) => ({ ...each })),
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
  const serversCaReadMs = readsServersCa(pod) ? oldestStartMs(pod) : undefined;
  return {
    ...{ namespace, name, isReady, node: pod.spec.nodeName },
    app: printable(labels['k8s-app'] ?? ''),
    createdMs: Date.parse(creationTimestamp) || 0,
    why: isReady ? '' : printable(podReason(pod)),
    ...(serversCaReadMs !== undefined && { serversCaReadMs }),
  };
}

/** Whether a pod mounts the CA of API servers, as every pod with a service account token does. */
function readsServersCa({ spec }: KubePod): boolean {
  return spec.volumes.some(({ configMap, projected }) =>
    [configMap, ...(projected?.sources ?? []).map((source) => source.configMap)].some(
      (each) => each?.name === SERVERS_CA_CONFIG_MAP,
    ),
  );
}

/** The start of the container that has been running longest in a pod; undefined if none runs. */
function oldestStartMs({ status }: KubePod): number | undefined {
  const starts = [...status.initContainerStatuses, ...status.containerStatuses]
    .map(({ state }) => Date.parse(state.running?.startedAt ?? ''))
    .filter((ms) => Number.isFinite(ms));
  return starts.length === 0 ? undefined : Math.min(...starts);
}
