import { defineErrors, errorClass, retryable } from '../../internal/errors/index.ts';

/** Error codes for the systemd units of the agent's services. */
export const unitErrors = defineErrors({
  'units-curator-not-ready': retryable.system.unreachable(
    'The join service was started on this node, but its curator does not answer.',
    'Read the log of the join service: `journalctl -u cluster-joinservice` on the node.',
  ),
  'units-no-cluster-ca': retryable.system.precondition(
    'This control-plane node lacks the cluster CA, which signs the certificate of its join service.',
    'Wait while the node gets its keys. If the error stays, demote the node and promote it again with `cluster node set-role`.',
  ),
});

/** A service of the agent that cannot be started. */
export class UnitError extends errorClass(unitErrors) {}
