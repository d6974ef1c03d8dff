/** Domain layer: the roles of nodes, the states of a node in its cluster, and the guards of a role change. */
export {
  isLabelKey,
  isLabelValue,
  isReservedLabel,
  LABEL_KEY,
  LABEL_VALUE,
  MAX_LABELS,
} from './node-labels.ts';
export {
  formatTaint,
  isReservedTaint,
  isTaintEffect,
  MAX_TAINTS,
  sortedTaints,
  TAINT_EFFECTS,
  taintIdOf,
  whyTaintsInvalid,
  type Taint,
} from './node-taints.ts';
export { checkNodeMove, isMemberState, NODE_STATES, type NodeState } from './node-state.ts';
export { KUBERNETES_GROUPS, OPERATOR_ROLES, type OperatorRole } from './operator-role.ts';
export {
  parseRecordedPersons,
  RECORDED_PERSONS_PATH,
  renderRecordedPersons,
  type RecordedPerson,
} from './recorded-persons.ts';
export {
  checkRoleChange,
  leaveGuard,
  quorumOf,
  type EtcdMemberCounts,
  type GuardedNode,
  type RoleChangeGuard,
} from './role-change.ts';
export {
  firstNodeRoles,
  isControlPlane,
  isOnlyWorker,
  MAX_ROLE_CHARS,
  MAX_ROLES,
  parseRoles,
  roleNames,
  type RoleName,
  ROLES,
  type Role,
} from './role.ts';
