import { defineErrors, errorClass, fault } from '../errors/index.ts';

/** The errors of this directory, for `cluster help errors CODE`. */
export const roleErrors = defineErrors({
  'role-unknown': fault.operator.usage(
    'No role has this name.',
    'Use ConsensusMember, KubernetesController or KubernetesWorker.',
  ),
  'role-conflict': fault.operator.usage(
    'These roles cannot be combined.',
    'Give a KubernetesController the role ConsensusMember on the same node.',
  ),
  'role-state-move': fault.operator.precondition(
    'The node cannot change from its state to the requested one.',
    'Look at the node with `cluster node show NODE`. States go NEW, STANDBY, UP, DECOMMISSIONED and never back.',
  ),
});

/** An error of this directory, with one of its codes. */
export class RoleError extends errorClass(roleErrors) {}
