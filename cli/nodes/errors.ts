import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const nodesErrors = defineErrors({
  'nodes-removed-unknown': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'No machine that was removed has this name, node id or identity, or several have.',
    fix: 'See `cluster node ls --removed`, and name it by its identity.',
  },
  'nodes-change-unsafe': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'The change would harm the cluster; it was not made.',
    fix: 'The message says what must be done first.',
  },
  'nodes-drain-blocked': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning:
      'Pods on the node would be lost for good when they are moved away. No pod was touched; the node takes no new ones.',
    fix: 'Move them by hand, or say that they may go: --delete-emptydir-data, --force.',
  },
  'nodes-drain-timeout': {
    fault: 'operator',
    exit: 'partial',
    retryable: true,
    meaning: 'Pods did not leave the node in time; the message names them. The node takes no new ones.',
    fix: 'Look at the disruption budgets and at what the pods wait for, then run the same command again.',
  },
  'nodes-role-change-timeout': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning:
      'The roles of a node were changed and are on record, but its processes have not followed yet; the message says what is missing.',
    fix: 'See what the node waits for with `cluster node show NODE`, mend that, then run the same command again: it only waits.',
  },
  'nodes-not-verified': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning:
      'The fresh evidence of a node does not show what is expected of it; the message names the check.',
    fix: 'Take the node out of service (`cluster node cordon`) until it is explained; compare what changed on it.',
  },
});

export type NodesErrorCode = keyof typeof nodesErrors;

export class NodesError extends errorClass(nodesErrors) {}
