import { isPodReady, readinessOf, type KubeNode, type KubePod } from '../../../internal/kube/index.ts';

/**
 * How many pods the cluster has, and which of them are not ready. For minutes after a node is gone or silent, Kubernetes still has its
 * pods as they were: those of a node that was removed are left out, and those of a node that is not ready are not ready.
 */
export function countPods(
  pods: readonly KubePod[],
  nodes: readonly KubeNode[],
): { readonly total: number; readonly notReady: readonly string[] } {
  const isNodeReady = new Map(nodes.map((node) => [node.metadata.name, readinessOf(node).ready]));
  const present = pods.filter(({ spec: { nodeName } }) => nodeName === '' || isNodeReady.has(nodeName));
  const notReady = present.filter(
    (pod) =>
      !isPodReady(pod) || (pod.status.phase !== 'Succeeded' && isNodeReady.get(pod.spec.nodeName) === false),
  );
  return {
    total: present.length,
    notReady: notReady.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`),
  };
}
