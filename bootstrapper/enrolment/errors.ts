import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

/** Codes of this directory's errors, with meaning and fix. */
export const enrolmentErrors = defineErrors({
  'enrolment-illegal-transition': fault.system.internal(
    'The enrolment tried a transition that is not allowed, and stopped.',
    'This is a bug in the agent. Report it with the output of `journalctl -u bootstrapper`.',
  ),
  'enrolment-stuck': retryable.system.internal(
    'A step of the enrolment ended without a result.',
    'This is a bug in the agent. Report it with the output of `journalctl -u bootstrapper`.',
  ),
  'enrolment-step-failed': retryable.system.partial(
    'A step of the enrolment failed.',
    'Look at the cause at the end of the message and at `journalctl -u bootstrapper`. The agent retries automatically; if the same cause stays, reset the machine (see `cluster node reset --help`).',
  ),
  'enrolment-run-twice': fault.system.internal(
    'The enrolment was started twice in one process.',
    'This is a bug in the agent. Report it with the output of `journalctl -u bootstrapper`.',
  ),
  'enrolment-files-missing': fault.system.needsReset(
    'This machine has data of a cluster, but a file that belongs to it is missing. Nothing was changed.',
    'Restore the missing files from a backup; the agent then resumes automatically. To give up the data, run `cluster node remove NODE --lost` and, as an owner, `cluster node readmit NODE` in the cluster, then reset the machine as root (see `cluster node reset --help`).',
  ),
  'enrolment-keys-missing': fault.system.needsReset(
    'This machine belongs to a cluster, but a key or certificate that a member needs is missing. Nothing was changed: with a new key it would be another machine, or another cluster.',
    'Restore the file from a backup; the agent then resumes automatically. Or give up the node: run `cluster node remove NODE --lost` and, as an owner, `cluster node readmit NODE` in the cluster, then reset the machine as root (see `cluster node reset --help`).',
  ),
});

/** An error with a code of this directory. */
export class EnrolmentError extends errorClass(enrolmentErrors) {}
