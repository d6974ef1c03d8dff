/**
 * The audit log of a cluster: list it, export it, and verify its hash chain against the checkpoints that the workspace
 * keeps where the cluster cannot reach them.
 */
export {
  findNewestDecision,
  runAuditExport,
  runAuditList,
  runAuditVerify,
  type AuditListOptions,
} from './audit.ts';
export { detailText } from './detail-text.ts';
export { AuditLogError, auditLogErrors } from './errors.ts';
