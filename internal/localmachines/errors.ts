import { defineErrors, errorClass, fault, retryable } from '../errors/index.ts';

/** The errors of local machines. */
export const localMachineErrors = defineErrors({
  'localmachines-preflight': fault.operator.preflight(
    'This machine does not meet the requirements of local clusters. Nothing was changed.',
    'Run the commands that `cluster mini preflight` prints, then the same command again.',
  ),
  'localmachines-invalid-name': fault.operator.usage(
    'The name of a local cluster or node is invalid: it may have at most 20 lower-case letters, digits and dashes.',
    'Use another name, for example `mini` or `n1`.',
  ),
  'localmachines-cluster-not-found': fault.operator.precondition(
    'The local cluster does not exist.',
    'List the local clusters with `cluster mini ls`, or create one with `cluster mini up`.',
  ),
  'localmachines-node-not-found': fault.operator.precondition(
    'The local cluster does not have this node.',
    'List the nodes with `cluster mini ls`.',
  ),
  'localmachines-not-running': fault.operator.precondition(
    'The local node is not running.',
    'Start the node with `cluster mini start NODE`.',
  ),
  'localmachines-locked': retryable.operator.locked(
    'Another process is changing the same local cluster or cache.',
    'Wait until the other command has ended, then run the same command again.',
  ),
  'localmachines-no-network': fault.system.precondition(
    'All networks in 198.18.0.0/16 or all addresses of a network are in use on this machine.',
    'Remove local clusters with `cluster mini down`, or routes to 198.18.0.0/16.',
  ),
  'localmachines-boot-failed': retryable.system.partial(
    'A local node or its TPM did not start. The message has the last lines of its console.',
    'Run `cluster mini preflight`, which names what this machine lacks for local nodes, then the same command again. The whole console of the node is in the file that the message names.',
  ),
  'localmachines-no-programs': fault.operator.precondition(
    'The local machine is a virtual machine with an image, which has no shell: no program can be started in it.',
    'Read the file with its console. For the cluster in it, use `kubectl` with the kubeconfig in the workspace of the local cluster.',
  ),
  'localmachines-not-removed': retryable.system.partial(
    'A process, mount or cgroup of a local cluster could not be removed.',
    'End shells and programs that use the resources named in the message, then run the same command again.',
  ),
  'localmachines-invalid-record': fault.system.precondition(
    'A record of a local cluster is damaged or was written by another version.',
    'Remove the cluster with `cluster mini down --name NAME` and create it again.',
  ),
});

/** A local cluster or its host is not as required. */
export class LocalMachineError extends errorClass(localMachineErrors) {}
