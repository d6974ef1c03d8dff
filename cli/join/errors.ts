import { CodedError, defineErrors, errorClass } from '../../internal/errors/index.ts';

export const joinErrors = defineErrors({
  'cluster-join-no-agent': {
    fault: 'operator',
    exit: 'precondition',
    retryable: true,
    meaning: 'The agent of this machine does not respond, or this user may not use it.',
    fix: 'Run the command as root on a machine whose bootstrapper.service is active. From a workstation, pass the machine with --node ADDRESS.',
  },
  'cluster-join-node-unreachable': {
    fault: 'peer',
    exit: 'unreachable',
    retryable: true,
    meaning: 'The machine does not respond on its init port, which it closes when it has joined a cluster.',
    fix: 'Check the address of the machine and that its bootstrapper.service is active. `cluster node ls` lists the machines that have joined.',
  },
  'cluster-join-no-endpoint': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'No control-plane node was given, and this workspace has no cluster yet.',
    fix: 'Pass a control-plane node with --endpoint ADDRESS.',
  },
  'cluster-join-wait-timeout': {
    fault: 'operator',
    exit: 'unreachable',
    retryable: true,
    meaning:
      'The machine did not become a running node in time; the error contains its current stage. The join continues without this command.',
    fix: 'If the machine waits for approval, run `cluster node approve`. Run the same command again to continue waiting.',
  },
  'cluster-join-duration-invalid': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'The duration is invalid.',
    fix: 'Use a number and a unit, s, m or h: 90s, 10m or 2h.',
  },
});

export type JoinErrorCode = keyof typeof joinErrors;

export class JoinError extends errorClass(joinErrors) {}

/** What the machine says that its enrolment ended with, under its own code. */
export class EnrolmentEnded extends CodedError {
  constructor(
    problem: { readonly code: string; readonly message: string; readonly fix: string },
    exit: CodedError['exit'],
  ) {
    const { code, message, fix } = problem;
    super({ [code]: { fault: 'peer', exit, retryable: false, meaning: message, fix } }, code, message);
  }
}
