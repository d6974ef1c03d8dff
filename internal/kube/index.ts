/**
 * A small Kubernetes API client for the CLI: reads, writes, waits and kubeconfig files, over HTTPS with a client
 * certificate. The agent does not use it.
 */
export { reviewKubelet } from './access-review.ts';
export { KubeClient, type KubeAccess, type KubeWrite } from './client.ts';
export { deleteNodeObject, evictPod, listPodsOn, type PodKind, type PodOnNode } from './disruption.ts';
export { KubeError, type KubeErrorCode } from './errors.ts';
export {
  accessFromKubeconfig,
  mergeKubeconfig,
  renderKubeconfig,
  type MergedKubeconfig,
} from './kubeconfig.ts';
export {
  listEvents,
  listNodes,
  listPods,
  readinessOf,
  type KubeEvent,
  type KubeNode,
  type KubePod,
} from './objects.ts';
export { readScheduling, setSchedulable, type NodeScheduling } from './scheduling.ts';
export { waitForApi, waitForNodeReady, type WaitOptions } from './wait.ts';
