/**
 * Rotation of the keys that control planes share, on this node (internal/keyset describes the phases).
 *
 * ```
 * operator ─ RotateKeys ─▶ record: asked ──▶ advance (control planes): make ─▶ hand ─▶ believe ─▶ … ─▶ done
 *                                              ▲ all nodes completed it             │
 *      status: stage of each node ─────────────┘             directory: "GEN/PHASE" ▼
 *                                          keys (all nodes): fetch │ enforce, follow ─▶ refresh ─▶ finished, on disk
 * ```
 * Nodes learn the current phase from curators, also a control plane whose etcd has lost its peers. That control plane gets
 * the new keys in a ticket after attestation, like a machine that joins. Each step depends only on the record and the disk.
 */
export { rotationWorker, type RotationOptions } from './rotation-worker.ts';
export { KeyRotationError } from './errors.ts';
export { KeyStore, type KeyPaths } from './key-store.ts';
export {
  isSetOf,
  nodeKeysWorker,
  type KeyRotationDriver,
  type NodeKeysWorkerOptions,
  type NewKeys,
} from './node-keys-worker.ts';
export { installSharedKeys } from './install-shared-keys.ts';
