import { CodedError, defineErrors, type CodedErrorOptions } from '../../internal/errors/index.ts';

export const auditLogErrors = defineErrors({
  'audit-log-altered': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning:
      'The audit of the cluster is not the one that was seen before: an entry was changed, dropped or put elsewhere.',
    fix: 'Compare the named entry with earlier exports; treat all decisions after it as doubtful.',
  },
});

export type AuditLogErrorCode = keyof typeof auditLogErrors;

export class AuditLogError extends CodedError<AuditLogErrorCode> {
  constructor(code: AuditLogErrorCode, message: string, options?: CodedErrorOptions) {
    super(auditLogErrors, code, message, options);
  }
}
