/** Operators of a cluster: who they are, their keys and grants, and the owners that machines are provisioned with. */
export { runOperatorAccept, runOperatorKey } from './operator-identity.ts';
export { runOperatorAdd, runOperatorList, runOperatorRemove, type OperatorOptions } from './operators.ts';
export { ownerKeysToProvision, isOwnerOnRecord } from './ownership.ts';
