import { defineErrors, errorClass } from '../../internal/errors/index.ts';

/** Codes of this directory's errors, with meaning and fix. */
export const initServerErrors = defineErrors({
  'initserver-spec-invalid': {
    fault: 'operator',
    exit: 'usage',
    meaning: 'The request to create a cluster is invalid. Nothing was changed.',
    fix: 'Correct the value. If it is correct, compare the versions of CLI and agent.',
  },
  'initserver-spec-changed': {
    fault: 'operator',
    exit: 'precondition',
    meaning: 'This init was started with another specification.',
    fix: 'Run `cluster init` with the configuration that it was started with. Change settings of a running cluster with `cluster config apply`.',
  },
  'initserver-other-cluster': {
    fault: 'operator',
    exit: 'precondition',
    meaning: 'This machine belongs to another cluster, or another init has locked it. Nothing was changed.',
    fix: 'Use the workspace of that cluster. If the cluster no longer exists, reset the machine as root (see `cluster node reset --help`).',
  },
  'initserver-version': {
    fault: 'operator',
    exit: 'precondition',
    meaning: 'The versions of CLI and agent differ by more than one minor version. Nothing was changed.',
    fix: 'Install a CLI or an agent of the same minor version as the other one.',
  },
  'initserver-blobs-missing': {
    fault: 'operator',
    exit: 'precondition',
    retryable: true,
    meaning: 'Components of the bundle are missing on the machine. Nothing was changed.',
    fix: 'Run `cluster init` again: it uploads the missing components.',
  },
  'initserver-no-job': {
    fault: 'operator',
    exit: 'precondition',
    meaning: 'The machine has no init with this id, or the init has not finished.',
    fix: 'Run `cluster init` until it completes.',
  },
  'initserver-in-progress': {
    fault: 'operator',
    exit: 'precondition',
    meaning:
      'The machine has accepted an init, so its own services use the ports that a preflight would check. Nothing was changed.',
    fix: 'Run `cluster init` again: it resumes where it stopped.',
  },
  'initserver-record-damaged': {
    fault: 'system',
    exit: 'needsReset',
    meaning:
      'A record of the init on this machine is damaged. Nothing was changed, because the cluster may already exist.',
    fix: 'Restore the file from a backup. To give up the cluster on this machine, reset the machine as root (see `cluster node reset --help`).',
  },
  'initserver-signature-invalid': {
    fault: 'peer',
    exit: 'refused',
    meaning: 'The acknowledgement of the new cluster is not signed with an owner key of this machine.',
    fix: 'Use a workspace whose owner key is in the provisioning of the machine.',
  },
});

/** A code of this directory's errors. */
export type InitServerErrorCode = keyof typeof initServerErrors;

/** An error with a code of this directory. */
export class InitServerError extends errorClass(initServerErrors) {}
