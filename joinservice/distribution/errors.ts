import { defineErrors, errorClass } from '../../internal/errors/index.ts';

/** The errors of this directory, for `cluster explain CODE`. */
export const distributionErrors = defineErrors({
  'distribution-blob-missing': {
    fault: 'peer',
    exit: 'precondition',
    retryable: true,
    meaning: 'This control plane does not have the requested component.',
    fix: 'Do nothing if another control plane has it. Otherwise run the `cluster init` of this cluster again, which uploads it.',
  },
  'distribution-busy': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning: 'This control plane already sends as many components at once as allowed.',
    fix: 'Do nothing: the node fetches from another control plane, or retries.',
  },
  'distribution-request-invalid': {
    fault: 'peer',
    exit: 'usage',
    meaning: 'The request for a component is invalid.',
    fix: 'Compare the versions of both nodes. They may differ by one minor version.',
  },
});

/** The codes of `DistributionError`. */
export type DistributionErrorCode = keyof typeof distributionErrors;

/** An error of this directory, with one of its codes. */
export class DistributionError extends errorClass(distributionErrors) {}
