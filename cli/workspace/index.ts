/**
 * The operator's files: one directory per cluster.
 *
 *     cluster.yaml        what the operator wants                    written by people
 *     owner-key.pem       who the owner is                           made once
 *     master-secret.json  what all secrets are derived from          made once
 *     state.json          what this program did and got              replaced whole, under the lock
 *     kubeconfig          how kubectl gets in                        from the result of init, then renewed
 *     owner.crt           what the owner shows curators              once it was renewed; before, it is in state.json
 *     identity.json       who an operator is that is not the owner   made once, completed by an owner's grant
 *
 * Every write is whole or not at all, and their order is chosen so that what a crash leaves behind says where to go on.
 */
export { readConfig } from './config-file.ts';
export { createWorkspace, type CreatedWorkspace } from './create-workspace.ts';
export { WorkspaceError, workspaceErrors, type WorkspaceErrorCode } from './errors.ts';
export {
  createIdentity,
  parseGrant,
  readIdentity,
  renderGrant,
  saveGrant,
  type KubernetesEndpoint,
  type OperatorGrant,
  type OperatorIdentity,
} from './identity.ts';
export { readMasterSecret, readOwnerKey, type OwnerKey } from './keys.ts';
export { layoutOf, type WorkspaceLayout } from './layout.ts';
export { lockWorkspace, type LockOptions } from './lock-workspace.ts';
export {
  StateFile,
  type InitState,
  type InitStateResult,
  type MachineRecord,
  type WorkspaceState,
} from './state-file.ts';
