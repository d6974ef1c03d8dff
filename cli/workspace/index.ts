/**
 * The workspace: the operator's files of one cluster.
 *
 *     cluster.yaml        desired configuration             written by the operator
 *     owner-key.pem       key of the owner                  created once
 *     master-secret.json  all secrets are derived from it   created once
 *     state.json          progress and results              replaced atomically, under the lock
 *     kubeconfig          access for kubectl                from the result of init, then renewed
 *     owner.crt           certificate of the owner          after its first renewal; before, in state.json
 *     machines/NODE.json  machine of a node, for `verify`    created when it is first verified
 *     registry-credentials.json  passwords of registries  written by the operator
 *     backup-credentials         access key of the store  written by the operator
 *     identity.json       key of an operator                created once, completed by an owner's grant
 *
 * The owner key, the master secret and an operator's identity can be encrypted with a passphrase (`secret-file.ts` reads and
 * writes all three; docs/decisions/workspace-passphrase.md has the format).
 *
 * Every write is atomic, in an order that lets the next run resume after a crash.
 */
export { adoptWorkspace, readOwnerKeyFile, type AdoptedWorkspace } from './adopt-workspace.ts';
export { changePassphrase, secretsOf } from './change-passphrase.ts';
export { readConfig, requireConfig } from './config-file.ts';
export { createWorkspace, type CreatedWorkspace } from './create-workspace.ts';
export {
  createIdentity,
  isGrantOf,
  parseGrant,
  readIdentity,
  renderGrant,
  saveGrant,
  type KubernetesEndpoint,
  type OperatorGrant,
  type OperatorIdentity,
} from './identity.ts';
export {
  parseMasterSecret,
  readMasterSecret,
  readOwnerKey,
  renderMasterSecret,
  type OwnerKey,
} from './keys.ts';
export { layoutOf, type WorkspaceLayout } from './layout.ts';
export { lockWorkspace } from './lock-workspace.ts';
export { type PassphraseSource } from './passphrase.ts';
export { PromptPassphrases } from './prompt-passphrases.ts';
export { isSealedFile, readPrivateFile, type SecretAccess } from './secret-file.ts';
export {
  StateFile,
  type InitState,
  type InitStateResult,
  type MachineRecord,
  type WorkspaceState,
} from './state-file.ts';
