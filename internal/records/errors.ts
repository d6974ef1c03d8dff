import { defineErrors, errorClass, fault } from '../errors/index.ts';

/** The errors of records. */
export const recordErrors = defineErrors({
  'records-invalid': fault.system.internal(
    'A record of the cluster in etcd is damaged, or was written by a newer version.',
    'Compare the agent versions of all control-plane nodes (`cluster node ls`) and upgrade the older ones. The message has the key of the record.',
  ),
});

/** A record cannot be decoded. */
export class RecordError extends errorClass(recordErrors) {}
