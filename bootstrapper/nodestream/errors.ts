import { defineErrors, errorClass, fault } from '../../internal/errors/index.ts';

/** Codes of this directory's errors, with meaning and fix. */
export const nodeStreamErrors = defineErrors({
  'nodestream-unit-unknown': fault.operator.usage(
    'This is not a unit of the cluster. The logs of other units cannot be read.',
    'Use one of the listed units.',
  ),
  'nodestream-audit-missing': fault.operator.precondition(
    'This node has no audit log. API servers write the audit log, and they run on control planes only.',
    'Name a control plane (`cluster node ls`). A control plane of an earlier release begins its audit log when its static pods are written again, for example by a key rotation.',
  ),
  'nodestream-other-boot': fault.operator.precondition(
    'The order is for an earlier boot of this machine, which has restarted since. Nothing was done.',
    'Look at the node with `cluster node show NODE`, and give the order again if it is still wanted.',
  ),
  'nodestream-power-failed': fault.system.precondition(
    'systemd of the machine did not accept the order to restart or to stop.',
    'Look for the reason with `cluster node logs NODE --path root.nodestream`, or restart the machine at its console.',
  ),
  'nodestream-task-unknown': fault.peer.precondition(
    'The curator sent a request that this version of the agent does not support.',
    'Upgrade the agent of this node (`cluster node ls --wide` shows its version).',
  ),
});

/** An error with a code of this directory. */
export class NodeStreamError extends errorClass(nodeStreamErrors) {}
