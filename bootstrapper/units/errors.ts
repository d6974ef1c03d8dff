import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const unitErrors = defineErrors({
  'units-curator-not-ready': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning: 'The join service runs on this node, but its curator does not serve.',
    fix: 'See the last error in the message; `journalctl -u cluster-joinservice` on the node shows the log.',
  },
  'units-no-cluster-ca': {
    fault: 'system',
    exit: 'precondition',
    retryable: true,
    meaning: 'This control-plane node lacks the cluster CA, which signs the certificate of its join service.',
    fix: 'Nothing while the node gets its keys; if it stays so, demote the node and promote it again.',
  },
});

export type UnitErrorCode = keyof typeof unitErrors;

export class UnitError extends errorClass(unitErrors) {}
