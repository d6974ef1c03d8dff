/**
 * Requests to the Kubernetes API with a client certificate, and kubeconfigs. The agent uses only this directory. The
 * parent directory (shapes of objects, waits) is for the CLI, and in the agent it would cost memory on each node.
 */
export { KubeError, type KubeErrorCode } from './errors.ts';
export { isForbidden, KubeClient, type KubeAccess } from './kube-client.ts';
export { accessFromKubeconfig, mergeKubeconfig, renderKubeconfig } from './kubeconfig.ts';
