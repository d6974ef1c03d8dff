/**
 * Running a cluster: machines that want in, nodes and their whole lives, who administers, and what was decided. Each use
 * case asks a curator as the owner of the workspace or as the operator of an identity; what concerns pods goes through the Kubernetes API.
 */
export { runAuditExport, runAuditList, runAuditVerify, type AuditFilter } from './audit.ts';
export { runCloudInit, type CloudInitOptions } from './cloud-init.ts';
export { runCollateralHandOn } from './collateral-hand-on.ts';
export { runCollateralShow } from './collateral-show.ts';
export { runConfigShow } from './configuration-in-force.ts';
export { runConfigApply, runConfigEdit, type ApplyOptions } from './configuration.ts';
export { runCordon, runDrain, type DrainOptions } from './drain.ts';
export { AdminError, adminErrors, type AdminErrorCode } from './errors.ts';
export { runExplainJoin } from './explain.ts';
export { runApprove, runJoinList, runRefuse, type ApproveOptions } from './joins.ts';
export { runKeysRotate, runKeysShow, type RotateOptions } from './keys.ts';
export { runLabel } from './node-label.ts';
export { runNodeLogs, type LogOptions } from './node-logs.ts';
export { runNodeMetrics } from './node-metrics.ts';
export { runRemove, type RemoveOptions } from './node-remove.ts';
export { runReset, type ResetOptions } from './node-reset.ts';
export { runReadmit, runRemovedList } from './readmit.ts';
export { runNodeShow } from './node-show.ts';
export { runOperatorAccept, runOperatorKey } from './operator-identity.ts';
export { runOperatorAdd, runOperatorList, runOperatorRemove, type OperatorOptions } from './operators.ts';
export { parseRoleWords, type RoleWord } from './roles.ts';
export { parseLabelChanges } from './roles.ts';
export { runSetRole, type SetRoleOptions } from './set-role.ts';
export { runVerifyNode } from './verify-node.ts';
