import { defineErrors, errorClass } from '../../internal/errors/index.ts';

/** Error codes for the systemd units of the agent's services. */
export const unitErrors = defineErrors({
  'units-curator-not-ready': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning: 'The join service was started on this node, but its curator does not answer.',
    fix: 'Read its log: `journalctl -u cluster-joinservice` on the node.',
  },
  'units-no-cluster-ca': {
    fault: 'system',
    exit: 'precondition',
    retryable: true,
    meaning: 'This control-plane node lacks the cluster CA, which signs the certificate of its join service.',
    fix: 'Wait while the node gets its keys. If the error stays, demote the node and promote it again with `cluster node set-role`.',
  },
});

/** Error code of a `UnitError`. */
export type UnitErrorCode = keyof typeof unitErrors;

/** A service of the agent that cannot be started. */
export class UnitError extends errorClass(unitErrors) {}
