import { defineErrors, errorClass } from '../errors/index.ts';

export const recordErrors = defineErrors({
  'records-invalid': {
    fault: 'system',
    exit: 'internal',
    retryable: false,
    meaning:
      "A record in the cluster's own part of etcd is not what it should be, or was written by a newer version.",
    fix: 'Compare the versions of the agents on all control-plane nodes; the message names the key.',
  },
});

export type RecordErrorCode = keyof typeof recordErrors;

export class RecordError extends errorClass(recordErrors) {}
