/**
 * Running a cluster: machines that want in, nodes and their whole lives, who administers, and what was decided. Each use
 * case asks a curator as the owner of the workspace or as the operator of an identity; what concerns pods goes through the Kubernetes API.
 */
export { runCordon, runDrain, type DrainOptions } from './drain.ts';
export { NodesError, nodesErrors, type NodesErrorCode } from './errors.ts';
export { runExplainJoin } from './joins/explain-join.ts';
export { runApprove, runJoinList, runRefuse, type ApproveOptions } from './joins/joins.ts';
export { runLabel } from './node-label.ts';
export { runNodeLogs, type LogOptions } from './node-logs.ts';
export { runNodeMetrics } from './node-metrics.ts';
export { runRemove, type RemoveOptions } from './removal/node-remove.ts';
export { runReset, type ResetOptions } from './removal/node-reset.ts';
export { runReadmit, runRemovedList } from './removal/readmit.ts';
export { runNodeShow } from './node-show.ts';
export { parseRoleNames, type RoleName } from './roles/role-names.ts';
export { parseLabelChanges } from './roles/role-names.ts';
export { runSetRole, type SetRoleOptions } from './roles/set-role.ts';
export { runVerifyNode } from './verify-node.ts';
