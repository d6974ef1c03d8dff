/**
 * Requests to the Kubernetes API with a client certificate, and kubeconfigs. The agent uses only this part: the shapes of objects and the
 * waits beside it are for the CLI, and would cost each node memory.
 */
export { KubeError, type KubeErrorCode } from './errors.ts';
export { isForbidden, KubeClient, type KubeAccess } from './kube-client.ts';
export { accessFromKubeconfig, mergeKubeconfig, renderKubeconfig } from './kubeconfig.ts';
