import { defineErrors, errorClass, fault } from '../errors/index.ts';

export const auditErrors = defineErrors({
  'audit-chain-broken': fault.system.refused(
    'The audit log was changed: an entry was altered, removed, inserted or moved.',
    'Keep all copies of the audit log and treat the control planes as compromised. Compare the copies from the entry in the error message on with the last valid checkpoint.',
  ),
  'audit-checkpoint-invalid': fault.operator.refused(
    'A checkpoint of the audit log is damaged, belongs to another cluster, or has an invalid signature.',
    'Use an older checkpoint of this workspace. If none is valid, find out who can write to the workspace.',
  ),
});

/** An audit log or checkpoint was changed. */
export class AuditError extends errorClass(auditErrors) {}
