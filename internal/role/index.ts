/** Domain: what nodes can be told to run, and where they stand with their cluster. */
export { RoleError, roleErrors, type RoleErrorCode } from './errors.ts';
export { checkNodeMove, isMemberState, NODE_STATES, type NodeState } from './node-state.ts';
export { firstNodeRoles, isControlPlane, parseRoles, roleNames, ROLES, type Role } from './role.ts';
