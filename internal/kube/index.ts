/**
 * A small Kubernetes API client for the CLI: reads, writes, waits and kubeconfig files, over HTTPS with a client certificate. The agent uses
 * only `client`.
 */
export { reviewKubelet } from './access-review.ts';
export {
  accessFromKubeconfig,
  KubeClient,
  KubeError,
  mergeKubeconfig,
  renderKubeconfig,
  type KubeAccess,
  type KubeErrorCode,
} from './client/index.ts';
export { readServerTime } from './server-time.ts';
export {
  listBlockedDeployments,
  listTerminatingNamespaces,
  listUnavailableApis,
  listWebhookServices,
  readPreviousLog,
  readPodWarning,
} from './failures.ts';
export {
  listBudgets,
  listReleases,
  readKubeletDisks,
  readServerVersion,
  RELEASE_LABELS,
  type HelmRelease,
} from './health.ts';
export { deleteNodeObject, evictPod, listPodsOn, type PodOnNode } from './disruption.ts';
export {
  isPodReady,
  listEvents,
  listNodes,
  listPods,
  readinessOf,
  type KubeNode,
  type KubePod,
} from './objects.ts';
export { toleratesTaint } from './tolerations.ts';
export { readScheduling, setSchedulable } from './scheduling.ts';
export {
  listServersCaChanges,
  readServersCa,
  restartForServersCa,
  SERVERS_CA_CONFIG_MAP,
  type Workload,
} from './servers-ca.ts';
export { waitForApi, waitForNodeReady } from './wait.ts';
