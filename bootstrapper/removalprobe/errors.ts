import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const removalProbeErrors = defineErrors({
  'removalprobe-is-member': {
    fault: 'operator',
    exit: 'refused',
    retryable: false,
    meaning:
      'Whether a removed node is still let in is tested with credentials that are forged in its name. The node that was named is still a member, and nobody may act in the name of one.',
    fix: 'Remove the node first: `cluster node remove` runs the test by itself.',
  },
  'removalprobe-not-control-plane': {
    fault: 'operator',
    exit: 'precondition',
    retryable: true,
    meaning:
      'Only a control-plane node has the keys to test with forged credentials whether a removed node is still let in; this one runs no control plane.',
    fix: 'Run `cluster node remove` again: it asks the control-plane nodes that there are by then.',
  },
  'removalprobe-busy': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning:
      'This node is already testing with forged credentials whether a removed node is still let in; it runs one such test at a time.',
    fix: 'Run the same command again in a minute.',
  },
  'removalprobe-request-invalid': {
    fault: 'peer',
    exit: 'usage',
    retryable: false,
    meaning: 'The request for a test with forged credentials names no node.',
    fix: 'Compare the versions of agent and CLI; they may differ by one minor.',
  },
});

export type RemovalProbeErrorCode = keyof typeof removalProbeErrors;

export class RemovalProbeError extends errorClass(removalProbeErrors) {}
