import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const initServerErrors = defineErrors({
  'initserver-spec-invalid': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'The request to create a cluster is not one this agent understands. Nothing was changed.',
    fix: 'Correct the value named in the message; compare the versions of CLI and agent if it looks right.',
  },
  'initserver-spec-changed': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'An init with this id runs or has run with another specification.',
    fix: 'Run the command with the configuration it was begun with; settings of a running cluster are changed with `cluster config apply`.',
  },
  'initserver-other-cluster': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'This machine belongs to another cluster, or another init has bound it. Nothing was changed.',
    fix: 'Use the workspace of the cluster named in the message. If that cluster is no more, make the machine fresh as root on it (`cluster node reset --help` shows how).',
  },
  'initserver-version': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'CLI and agent are too far apart: they may differ by one minor version. Nothing was changed.',
    fix: 'Install a CLI or an agent package so that both are of the same minor version.',
  },
  'initserver-blobs-missing': {
    fault: 'operator',
    exit: 'precondition',
    retryable: true,
    meaning: 'The machine lacks components of the bundle. Nothing was changed.',
    fix: 'Run the same `cluster init` again: it uploads what is missing.',
  },
  'initserver-no-job': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'There is no init with this id on the machine, or it has not finished.',
    fix: 'Run `cluster init` to its end first.',
  },
  'initserver-in-progress': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning:
      'An init was accepted by this machine, so that its own services hold the ports a preflight would look at. Nothing was changed.',
    fix: 'Run `cluster init` again: it goes on where it stopped.',
  },
  'initserver-record-damaged': {
    fault: 'system',
    exit: 'needsReset',
    retryable: false,
    meaning:
      'The record of an init on this machine is damaged. Nothing was changed: a cluster may have begun here.',
    fix: 'Restore the file named in the message from a backup. If no cluster is to be saved there, make the machine fresh as root on it (`cluster node reset --help` shows how).',
  },
  'initserver-signature-invalid': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning: 'The signature over the new cluster is not by an owner key that this machine knows.',
    fix: 'Use the workspace whose owner key the machine was provisioned with.',
  },
});

export type InitServerErrorCode = keyof typeof initServerErrors;

export class InitServerError extends errorClass(initServerErrors) {}
