import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

/** Codes of this directory's errors, with meaning and fix. */
export const initServerErrors = defineErrors({
  'initserver-spec-invalid': fault.operator.usage(
    'The request to create a cluster is invalid. Nothing was changed.',
    'Correct the value. If it is correct, compare the versions of CLI and agent.',
  ),
  'initserver-spec-changed': fault.operator.precondition(
    'This init was started with another specification.',
    'Run `cluster init` again with the configuration of the first run. Change settings of a running cluster with `cluster config apply`.',
  ),
  'initserver-other-cluster': fault.operator.precondition(
    'This machine belongs to another cluster, or another init has locked it. Nothing was changed.',
    'Use the workspace of that cluster. If the cluster no longer exists, reset the machine as root (see `cluster node reset --help`).',
  ),
  'initserver-version': fault.operator.precondition(
    'The versions of CLI and agent differ by more than one minor version. Nothing was changed.',
    'Install a CLI and an agent of the same minor version.',
  ),
  'initserver-blobs-missing': retryable.operator.precondition(
    'Components of the bundle are missing on the machine. Nothing was changed.',
    'Run `cluster init` again: it uploads the missing components.',
  ),
  'initserver-no-job': fault.operator.precondition(
    'The machine has no init with this id, or the init has not finished.',
    'Run `cluster init` until it completes.',
  ),
  'initserver-in-progress': fault.operator.precondition(
    'The machine has accepted an init, so its own services use the ports that a preflight would check. Nothing was changed.',
    'Run `cluster init` again: it resumes where it stopped.',
  ),
  'initserver-record-damaged': fault.system.needsReset(
    'A record of the init on this machine is damaged. Nothing was changed, because the cluster may already exist.',
    'Restore the file from a backup. To give up the cluster on this machine, reset the machine as root (see `cluster node reset --help`).',
  ),
  'initserver-signature-invalid': fault.peer.refused(
    'The acknowledgement of the new cluster is not signed with an owner key of this machine.',
    'Use a workspace whose owner key is in the provisioning of the machine.',
  ),
});

/** An error with a code of this directory. */
export class InitServerError extends errorClass(initServerErrors) {}
