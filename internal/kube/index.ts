/**
 * A small Kubernetes API client: reads, writes, waits and kubeconfig files, over HTTPS with a client certificate. The CLI uses
 * it; the agent only to write encrypted objects again.
 */
export { reviewKubelet } from './access-review.ts';
export { KubeClient, type KubeAccess } from './client.ts';
export { readServerTime } from './server-time.ts';
export {
  listBudgets,
  listReleases,
  readKubeletDisks,
  readServerVersion,
  type HelmRelease,
} from './health.ts';
export { deleteNodeObject, evictPod, listPodsOn, type PodOnNode } from './disruption.ts';
export { KubeError, type KubeErrorCode } from './errors.ts';
export { accessFromKubeconfig, mergeKubeconfig, renderKubeconfig } from './kubeconfig.ts';
export { listEvents, listNodes, listPods, readinessOf, type KubeNode, type KubePod } from './objects.ts';
export { readScheduling, setSchedulable } from './scheduling.ts';
export { waitForApi, waitForNodeReady } from './wait.ts';
