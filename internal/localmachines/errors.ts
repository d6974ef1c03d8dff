import { defineErrors, errorClass } from '../errors/index.ts';

/** The errors of local machines. */
export const localMachineErrors = defineErrors({
  'localmachines-preflight': {
    fault: 'operator',
    exit: 'preflight',
    meaning: 'This machine does not meet the requirements of local clusters. Nothing was changed.',
    fix: 'Run the commands that `cluster mini preflight` prints, then the same command again.',
  },
  'localmachines-invalid-name': {
    fault: 'operator',
    exit: 'usage',
    meaning:
      'The name of a local cluster or node is invalid: it may have at most 20 lower-case letters, digits and dashes.',
    fix: 'Use another name, for example `mini` or `n1`.',
  },
  'localmachines-cluster-not-found': {
    fault: 'operator',
    exit: 'precondition',
    meaning: 'The local cluster does not exist.',
    fix: 'List the local clusters with `cluster mini ls`, or create one with `cluster mini up`.',
  },
  'localmachines-node-not-found': {
    fault: 'operator',
    exit: 'precondition',
    meaning: 'The local cluster does not have this node.',
    fix: 'List the nodes with `cluster mini ls`.',
  },
  'localmachines-not-running': {
    fault: 'operator',
    exit: 'precondition',
    meaning: 'The local node is not running.',
    fix: 'Start it with `cluster mini start NODE`.',
  },
  'localmachines-locked': {
    fault: 'operator',
    exit: 'locked',
    retryable: true,
    meaning: 'Another process is changing the same local cluster or cache.',
    fix: 'Wait until the other command has ended, then run the same command again.',
  },
  'localmachines-no-network': {
    fault: 'system',
    exit: 'precondition',
    meaning: 'All networks in 198.18.0.0/16 or all addresses of a network are in use on this machine.',
    fix: 'Remove local clusters with `cluster mini down`, or routes to 198.18.0.0/16.',
  },
  'localmachines-boot-failed': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning: 'A local node or its TPM did not start. The message has the last lines of its console.',
    fix: 'Correct the cause that the console shows (its path is in the message), then run the same command again.',
  },
  'localmachines-not-removed': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning: 'A process, mount or cgroup of a local cluster could not be removed.',
    fix: 'End shells and programs that use the resources named in the message, then run the same command again.',
  },
  'localmachines-invalid-record': {
    fault: 'system',
    exit: 'precondition',
    meaning: 'A record of a local cluster is damaged or was written by another version.',
    fix: 'Remove the cluster with `cluster mini down --name NAME` and create it again.',
  },
});

/** A code of this directory. */
export type LocalMachineErrorCode = keyof typeof localMachineErrors;

/** A local cluster or its host is not as required. */
export class LocalMachineError extends errorClass(localMachineErrors) {}
