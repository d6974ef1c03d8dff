/**
 * Writes the audit log in etcd, each entry in the transaction of the change; `internal/audit` has the chain itself.
 * Every change of curator, join service and agent to the records of the cluster goes through `AuditLog.commit`.
 */
export { AuditLog, headFrom } from './audit-log.ts';
