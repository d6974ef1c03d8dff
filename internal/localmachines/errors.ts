import { defineErrors, errorClass } from '../errors/index.ts';

export const localMachineErrors = defineErrors({
  'localmachines-preflight': {
    fault: 'operator',
    exit: 'preflight',
    retryable: false,
    meaning: 'This machine lacks something that a local cluster needs. Nothing was changed.',
    fix: 'Run the commands that the message gives, then the same command again.',
  },
  'localmachines-invalid-name': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'A local cluster or node needs a name of at most 20 lower-case letters, digits and dashes.',
    fix: 'Choose another name, for example `mini` or `n1`.',
  },
  'localmachines-cluster-not-found': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'There is no local cluster of that name.',
    fix: 'See the names with `cluster mini ls`; make one with `cluster mini up`.',
  },
  'localmachines-node-not-found': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'The local cluster has no node of that name.',
    fix: 'See the names with `cluster mini ls`.',
  },
  'localmachines-not-running': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'The local node is switched off.',
    fix: 'Start it with `cluster mini start NODE`.',
  },
  'localmachines-locked': {
    fault: 'operator',
    exit: 'locked',
    retryable: true,
    meaning: 'Another process is changing the same thing right now.',
    fix: 'Wait until the other command has ended, then run this one again.',
  },
  'localmachines-no-network': {
    fault: 'system',
    exit: 'precondition',
    retryable: false,
    meaning: 'No node network inside 198.18.0.0/16 is free on this machine.',
    fix: 'Remove local clusters with `cluster mini down`, or routes into 198.18.0.0/16.',
  },
  'localmachines-boot-failed': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning: 'A local node did not come up; the last lines of its console are in the message.',
    fix: 'Read the console of the node (its path is in the message), then run the same command again.',
  },
  'localmachines-not-removed': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning: 'Something of a local cluster is still held by the kernel or by another program.',
    fix: 'Leave shells and programs that use the files named in the message, then run the same command again.',
  },
  'localmachines-invalid-record': {
    fault: 'system',
    exit: 'precondition',
    retryable: false,
    meaning: 'A record of a local cluster is not what this program writes.',
    fix: 'Remove the cluster with `cluster mini down --name NAME` and make it again.',
  },
});

export type LocalMachineErrorCode = keyof typeof localMachineErrors;

export class LocalMachineError extends errorClass(localMachineErrors) {}
