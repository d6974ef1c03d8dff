/**
 * Domain: the cluster's log of decisions, as the programs that decide write it; `internal/audit` has the chain itself.
 * Whatever curator, join service and agent change in the cluster's name goes through `AuditLog.commit`.
 */
export { AuditLog, headFrom, type AuditedChange, type AuditedResult } from './audit-log.ts';
