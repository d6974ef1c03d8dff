/**
 * This node's part in replacing the keys that control planes share (internal/keyset says what a phase is).
 *
 * ```
 * operator ─ RotateKeys ─▶ record: asked ──▶ advance (control planes): make ─▶ hand ─▶ believe ─▶ … ─▶ done
 *                                              ▲ everybody has reached it           │
 *      status: what a node has finished ───────┘             directory: "GEN/PHASE" ▼
 *                                          keys (all nodes): fetch │ enforce, follow ─▶ refresh ─▶ finished, on disk
 * ```
 * Everybody learns of a phase through curators, so a control plane whose etcd cannot speak to its peers any more learns it
 * too, and gets the keys in a ticket, by evidence, as one that joins. Whatever is done is a function of record and disk.
 */
export { rotationWorker, type RotationOptions } from './rotation-worker.ts';
export { KeyRotationError, keyRotationErrors, type KeyRotationErrorCode } from './errors.ts';
export { KeyStore, type KeyPaths } from './key-store.ts';
export {
  nodeKeysWorker,
  type KeyRotationDriver,
  type NodeKeysWorkerOptions,
  type NewKeys,
} from './node-keys-worker.ts';
export { installSharedKeys } from './install-shared-keys.ts';
