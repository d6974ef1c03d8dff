import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

/** Error codes of the curator client, with meaning and fix. */
export const curatorClientErrors = defineErrors({
  'curatorclient-no-curator': retryable.system.unreachable(
    'This node knows no curator.',
    'Nothing to do while the node joins. Later, add the address of a control-plane node to `joinEndpoints` of its provisioning.',
  ),
  'curatorclient-left-directory': retryable.peer.unreachable(
    'A curator was taken off the list of control planes during a request.',
    'Nothing to do: the node continues with another curator.',
  ),
  'curatorclient-not-member': fault.operator.refused(
    'This node was removed from the cluster: no record of a member has its key.',
    'To let the machine join again, reset it as root (see `cluster node reset --help`). The machine then joins with a new key. If it is not to join again, shut it down.',
  ),
  'curatorclient-other-node': retryable.peer.refused(
    'Another node of the cluster responds at the address of a control-plane node.',
    'Make sure that no two machines use the same address. If none do, wait: the list of control planes is updated automatically.',
  ),
});

/** An error of the curator client. */
export class CuratorClientError extends errorClass(curatorClientErrors) {}
