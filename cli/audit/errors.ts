import { defineErrors, errorClass, fault } from '../../internal/errors/index.ts';

/** Errors of verifying an audit log. */
export const auditLogErrors = defineErrors({
  'audit-log-altered': fault.peer.refused(
    'The audit log differs from the checkpoints of the workspace: entries were changed, deleted or reordered, or a checkpoint is missing.',
    'Compare the entry that the error names with earlier exports. Trust neither this entry nor later ones.',
  ),
  'audit-export-invalid': fault.operator.usage(
    'The file is not an export of an audit log, or it is damaged: it proves nothing.',
    'Name a file that `cluster audit export` wrote. If `cluster audit export` wrote this file, compare the file with another copy.',
  ),
});

/** The audit log differs from what was verified before, or a file is not an undamaged export of an audit log. */
export class AuditLogError extends errorClass(auditLogErrors) {}
