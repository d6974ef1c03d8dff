import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

/** Codes of this directory's errors, with meaning and fix. */
export const removalErrors = defineErrors({
  'removal-found': retryable.operator.partial(
    'The cluster has removed this node. The agent saves that and ends. After systemd has started it again, the agent stops everything that the node ran.',
    'Nothing to do: the agent continues automatically.',
  ),
  'removal-removed': fault.operator.refused(
    'This machine was a node, and its cluster has removed it. The machine runs nothing for the cluster any more, and the data of the cluster is still on its disk.',
    'To use the machine again, reset it as root: `install -D /dev/null /var/lib/cluster/reset/order.json && systemctl restart --no-block bootstrapper`. To let the machine join the same cluster again, have an owner also run `cluster node readmit NODE`. If you do not use the machine again, erase its disk.',
  ),
});

/** An error with a code of this directory. */
export class RemovalError extends errorClass(removalErrors) {}
