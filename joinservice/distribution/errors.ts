import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const distributionErrors = defineErrors({
  'distribution-blob-missing': {
    fault: 'peer',
    exit: 'precondition',
    retryable: true,
    meaning: 'This control-plane node does not hold the component that was asked for.',
    fix: 'Nothing, if another control-plane node holds it; else run the `cluster init` of this cluster again, which uploads it.',
  },
  'distribution-busy': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning: 'This control-plane node already sends as many components at once as it may.',
    fix: 'Nothing: the node that asked goes to another one, or comes again.',
  },
  'distribution-request-invalid': {
    fault: 'peer',
    exit: 'usage',
    retryable: false,
    meaning: 'A request for a component cannot mean anything.',
    fix: 'Compare the versions of both nodes; they may differ by one minor.',
  },
});

export type DistributionErrorCode = keyof typeof distributionErrors;

export class DistributionError extends errorClass(distributionErrors) {}
