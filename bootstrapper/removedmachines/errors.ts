import { defineErrors, errorClass, retryable } from '../../internal/errors/index.ts';

/** Codes of this directory's errors, with meaning and fix. */
export const nodeRemovedMachinesErrors = defineErrors({
  'noderemovedmachines-list-invalid': retryable.peer.refused(
    'A curator sent a list of removed machines that is malformed, too long, or of an epoch before that of the list on this node. The node keeps its list and asks again.',
    'If the error remains, compare the versions of this node and of the control planes, and look for control planes of the cluster before its restore (`cluster doctor`).',
  ),
});

/** An error with a code of this directory. */
export class NodeRemovedMachinesError extends errorClass(nodeRemovedMachinesErrors) {}
