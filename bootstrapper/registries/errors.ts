import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

/** Codes of this directory's errors, with meaning and fix. */
export const nodeRegistriesErrors = defineErrors({
  'noderegistries-invalid': fault.peer.refused(
    'The registries or the proxy in the configuration of the cluster have a form that this version does not know. The node keeps its current registries and proxy.',
    'Upgrade the agent of this node to the version of the control planes.',
  ),
  'noderegistries-credentials': retryable.peer.unhealthy(
    'This node cannot read the user names and passwords of registries from Kubernetes.',
    'Check that the Secret kube-system/cluster-registry-credentials exists; `cluster config apply` writes it. Otherwise check that an API server runs.',
  ),
});

/** An error with a code of this directory. */
export class NodeRegistriesError extends errorClass(nodeRegistriesErrors) {}
