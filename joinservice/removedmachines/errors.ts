import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

/** The errors of this directory, for `cluster help errors CODE`. */
export const removedMachinesErrors = defineErrors({
  'removedmachines-not-kept': fault.peer.refused(
    'A node reports removals of machines, but no restore has kept this node. Nothing was recorded.',
    'Do nothing: the node takes the list of the cluster. If a machine that you removed is a member again, remove it with `cluster node remove NODE --lost`.',
  ),
  'removedmachines-busy': retryable.system.unreachable(
    'Other callers changed the same records again and again while a node reported removals of machines.',
    'Do nothing: the node repeats its report.',
  ),
});

/** An error of this directory, with one of its codes. */
export class RemovedMachinesError extends errorClass(removedMachinesErrors) {}
