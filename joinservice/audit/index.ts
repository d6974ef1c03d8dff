/**
 * The cluster's log of decisions, as the programs that decide write it: `internal/audit` has the chain itself.
 * Whatever curator and join service change goes through `AuditLog.commit`.
 */
export { AuditLog, headFrom, type AuditedChange, type AuditedResult } from './audit-log.ts';
