import { defineErrors, errorClass } from '../errors/index.ts';

/** The errors of this directory, for `cluster explain CODE`. */
export const roleErrors = defineErrors({
  'role-unknown': {
    fault: 'operator',
    exit: 'usage',
    meaning: 'No role has this name.',
    fix: 'Use ConsensusMember, KubernetesController or KubernetesWorker.',
  },
  'role-conflict': {
    fault: 'operator',
    exit: 'usage',
    meaning: 'These roles cannot be combined.',
    fix: 'Give a KubernetesController the role ConsensusMember on the same node.',
  },
  'role-state-move': {
    fault: 'operator',
    exit: 'precondition',
    meaning: 'The node cannot change from its state to the requested one.',
    fix: 'Look at the node with `cluster node show NODE`. States go NEW, STANDBY, UP, DECOMMISSIONED and never back.',
  },
});

/** The codes of `RoleError`. */
export type RoleErrorCode = keyof typeof roleErrors;

/** An error of this directory, with one of its codes. */
export class RoleError extends errorClass(roleErrors) {}
