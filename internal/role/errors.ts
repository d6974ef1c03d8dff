import { defineErrors, errorClass, fault } from '../errors/index.ts';

/** The errors of this directory, for `cluster help errors CODE`. */
export const roleErrors = defineErrors({
  'role-unknown': fault.operator.usage(
    'No role has this name.',
    'Use `control-plane` or `worker`. If a record of the cluster has another role, a later release wrote it: upgrade this program.',
  ),
  'role-conflict': fault.operator.usage(
    'These roles cannot be combined.',
    'Give the node the role `control-plane`, which consists of both: `cluster node set-role NODE --control-plane`.',
  ),
  'role-state-move': fault.operator.precondition(
    'The node cannot change from its state to the requested one.',
    'Look at the node with `cluster node show NODE`. States go NEW, STANDBY, UP, DECOMMISSIONED and never back.',
  ),
});

/** An error of this directory, with one of its codes. */
export class RoleError extends errorClass(roleErrors) {}
