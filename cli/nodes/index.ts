/**
 * Nodes of a running cluster: join requests, roles, drain, removal, logs and evidence. Each use case calls a curator as the
 * owner of the workspace or as an operator; pods are reached through the Kubernetes API.
 */
export { runApproveDisk, type ApproveDiskOptions } from './disk/approve-disk.ts';
export { runRotateDiskKeys } from './disk/rotate-disk-keys.ts';
export { admitControlPlanes, type ChosenMachine } from './joins/admit-control-planes.ts';
export { runCordon, runDrain, type DrainOptions } from './drain.ts';
export { NodesError, nodesErrors } from './errors.ts';
export { runExplainJoin, type ExplainOptions } from './joins/explain-join.ts';
export { readTrace, type Trace } from './joins/join-trace.ts';
export {
  describeQueuePosition,
  joinViewFrom,
  JOIN_STATES,
  runApprove,
  runJoinList,
  runRefuse,
  type ApproveOptions,
  type JoinView,
} from './joins/joins.ts';
export { judgeFresh, readVerifier, type Judgement, type Verifier } from './fresh-evidence.ts';
export { expectMachine, MachinePins } from './machine-pins.ts';
export { runLabel } from './node-label.ts';
export { runTaint } from './node-taint.ts';
export { parseTaints } from './taint-changes.ts';
export { traceSection } from './joins/trace-page.ts';
export { followRunnable, runNodeLogs, type LogOptions } from './node-logs.ts';
export { runNodeMetrics } from './node-metrics.ts';
export { runReboot, runShutdown } from './node-power.ts';
export { runRemove, type RemoveOptions } from './removal/node-remove.ts';
export { runReset, type ResetOptions } from './removal/node-reset.ts';
export { unfinishedRemovals } from './removal/pending-removals.ts';
export { runReadmit, runRemovedList } from './removal/readmit.ts';
export { runnableViews, verdictAt, VERDICT_NAMES, type RunnableView } from './runnable-tree.ts';
export { runNodeShow } from './node-show.ts';
export { parseLabelChanges, parseRoleNames, rolesFromNames } from './roles/role-names.ts';
export { runSetRole, type SetRoleOptions } from './roles/set-role.ts';
export { runVerifyNode } from './verify-node.ts';
