import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const enrolmentErrors = defineErrors({
  'enrolment-illegal-transition': {
    fault: 'system',
    exit: 'internal',
    retryable: false,
    meaning: 'The enrolment tried a move that its table does not allow. It stopped.',
    fix: 'This is a defect of the agent; report it with the log of bootstrapper.service.',
  },
  'enrolment-stuck': {
    fault: 'system',
    exit: 'internal',
    retryable: true,
    meaning: 'A step of the enrolment ended without moving on.',
    fix: 'This is a defect of the agent; report it with the log of bootstrapper.service.',
  },
  'enrolment-step-failed': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning: 'A step of the enrolment failed.',
    fix: 'The message names the cause; the agent tries again by itself.',
  },
  'enrolment-run-twice': {
    fault: 'system',
    exit: 'internal',
    retryable: false,
    meaning: 'The enrolment was to run twice in one process.',
    fix: 'This is a defect of the agent; report it with the log of bootstrapper.service.',
  },
  'enrolment-files-missing': {
    fault: 'system',
    exit: 'needsReset',
    retryable: false,
    meaning:
      'Data of a cluster lies on this machine, but not the membership that belongs to it. Nothing was changed.',
    fix: 'Restore the missing files from a backup; the agent goes on by itself. If the data may go, take the node out where it is known (`cluster node remove NODE --lost`, and as an owner `cluster node readmit NODE`) and make the machine fresh as root on it (`cluster node reset --help` shows how).',
  },
  'enrolment-keys-missing': {
    fault: 'system',
    exit: 'needsReset',
    retryable: false,
    meaning:
      'This machine belongs to a cluster, but a key or certificate is gone that this rests on. Nothing was changed: a new one would be another machine, or another cluster.',
    fix: 'Restore the file named in the message from a backup; the agent goes on by itself. Or give the node up: `cluster node remove NODE --lost` and, as an owner, `cluster node readmit NODE` in the cluster, then make the machine fresh as root on it (`cluster node reset --help` shows how).',
  },
});

export type EnrolmentErrorCode = keyof typeof enrolmentErrors;

export class EnrolmentError extends errorClass(enrolmentErrors) {}
