import { CodedError, defineErrors, errorClass } from '../../internal/errors/index.ts';

export const joinErrors = defineErrors({
  'cluster-join-no-agent': {
    fault: 'operator',
    exit: 'precondition',
    retryable: true,
    meaning: 'No agent answers on this machine, or it does not answer this user.',
    fix: 'Run the command as root on a machine whose bootstrapper.service is active; at a workstation name the machine with --node ADDRESS.',
  },
  'cluster-join-node-unreachable': {
    fault: 'peer',
    exit: 'unreachable',
    retryable: true,
    meaning:
      'The machine does not answer at its init port. A machine that has joined a cluster has closed it.',
    fix: 'Check its address and that its bootstrapper.service is active; `cluster node ls` shows the machines that have joined.',
  },
  'cluster-join-no-endpoint': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'It was not said where the cluster is, and this workspace has no cluster yet.',
    fix: 'Name a control-plane node: --endpoint ADDRESS.',
  },
  'cluster-join-wait-timeout': {
    fault: 'operator',
    exit: 'unreachable',
    retryable: true,
    meaning:
      'The machine is not a running member yet; the message says where it stands. It goes on by itself.',
    fix: 'Do what it waits for, such as `cluster node approve`; the same command waits again.',
  },
  'cluster-join-duration-invalid': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'A duration is none.',
    fix: 'Write a number and s, m or h, such as 90s, 10m or 2h.',
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
