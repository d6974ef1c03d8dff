import { defineErrors, errorClass } from '../errors/index.ts';

export const roleErrors = defineErrors({
  'role-unknown': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'There is no role of this name.',
    fix: 'The roles are ConsensusMember, KubernetesController and KubernetesWorker.',
  },
  'role-conflict': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'These roles do not go together.',
    fix: 'A KubernetesController needs ConsensusMember on the same node.',
  },
  'role-state-move': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'The node cannot go from the state it is in to the one asked for.',
    fix: 'States go NEW, STANDBY, UP, DECOMMISSIONED and never back; look at the node with `cluster node show`.',
  },
});

export type RoleErrorCode = keyof typeof roleErrors;

export class RoleError extends errorClass(roleErrors) {}
