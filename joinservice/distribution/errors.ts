import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

/** The errors of this directory, for `cluster help errors CODE`. */
export const distributionErrors = defineErrors({
  'distribution-blob-missing': retryable.peer.precondition(
    'This control plane does not have the requested component.',
    'If another control plane has the component, do nothing. Otherwise run `cluster init` again in the workspace of this cluster: it uploads the component.',
  ),
  'distribution-busy': retryable.system.unreachable(
    'This control plane already sends as many components at once as allowed.',
    'Do nothing: the node fetches from another control plane, or retries.',
  ),
  'distribution-request-invalid': fault.peer.usage(
    'The request for a component is invalid.',
    'Compare the versions of both nodes. They may differ by one minor version.',
  ),
});

/** An error of this directory, with one of its codes. */
export class DistributionError extends errorClass(distributionErrors) {}
