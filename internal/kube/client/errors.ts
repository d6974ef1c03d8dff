import { defineErrors, errorClass, fault, retryable } from '../../errors/index.ts';

export const kubeErrors = defineErrors({
  'kube-unreachable': retryable.peer.unreachable(
    'The Kubernetes API did not respond.',
    'Check that a control-plane node runs and that its port 6443 is reachable from here.',
  ),
  'kube-other-authority': fault.peer.refused(
    'The server at the address of the Kubernetes API has a certificate that the cluster did not issue for this name.',
    'Check the address. If it is right, add it to `apiServer.extraSans` in cluster.yaml.',
  ),
  'kube-refused': fault.operator.refused(
    'The Kubernetes API does not accept these credentials, or does not authorize the request.',
    'Renew the kubeconfig with `cluster kubeconfig --renew`: its certificate may have expired or belong to another cluster.',
  ),
  'kube-not-found': fault.operator.precondition(
    'The Kubernetes API has no object with this name.',
    'Check the name, for example with `kubectl get`.',
  ),
  'kube-failed': retryable.peer.unhealthy(
    'The Kubernetes API returned an error.',
    'Run the command again: shortly after a start the API server returns errors. Otherwise read the log of kube-apiserver on the node.',
  ),
  'kube-not-now': retryable.operator.precondition(
    'The Kubernetes API refuses this now: it would violate a disruption budget, or the API server is overloaded.',
    'Add replicas on other nodes or relax the PodDisruptionBudget named in the error message, then run the command again.',
  ),
  'kube-config-invalid': fault.operator.usage(
    'A file is no valid kubeconfig.',
    'Correct or remove the file named in the error message.',
  ),
  'kube-wait-timeout': retryable.system.unreachable(
    'A part of the cluster did not become ready in time; the error message names it.',
    'Inspect this part with `kubectl describe`, then run the command again to keep waiting.',
  ),
});

/** Codes of `KubeError`. */
export type KubeErrorCode = keyof typeof kubeErrors;

/** A request to the Kubernetes API that failed. */
export class KubeError extends errorClass(kubeErrors) {}
