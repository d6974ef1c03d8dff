import { defineErrors, errorClass } from '../errors/index.ts';

export const auditErrors = defineErrors({
  'audit-chain-broken': {
    fault: 'system',
    exit: 'refused',
    retryable: false,
    meaning:
      'The log of decisions is not what it was: an entry was altered, left out, put in or is in another order.',
    fix: 'Keep both copies. The message names the first entry that does not fit; compare them with the last checkpoint that fits.',
  },
  'audit-checkpoint-invalid': {
    fault: 'operator',
    exit: 'refused',
    retryable: false,
    meaning:
      'A checkpoint of the log of decisions is damaged, of another cluster, or its signature is wrong.',
    fix: 'Use an older checkpoint of this workspace; if none fits, see who could write there.',
  },
});

export type AuditErrorCode = keyof typeof auditErrors;

export class AuditError extends errorClass(auditErrors) {}
