/**
 * Rotation of the keys that control planes share, on this node (internal/keyset describes the phases).
 *
 * ```
 * operator ─ RotateKeys ─▶ record: asked ──▶ advance (control planes): make ─▶ sign ─▶ distribute ─▶ trust ─▶ … ─▶ done
 * owner ──── PutDocuments: signature over the new public keys ─────────────────▶ │ ▲ all nodes completed it │
 *      status: stage of each node ─────────────┘             directory: "GEN/PHASE" ▼
 *                       keys (all nodes): verify ─▶ fetch │ enforce, follow ─▶ refresh ─▶ finished, on disk
 * ```
 * A node installs only keys that an owner has signed, and verifies the signature itself (`verify-keys.ts`), because it
 * does not trust curators for that. Nodes learn the current phase from curators, even a control plane that lost the
 * connection to the other etcd members. That control plane gets the new keys in a ticket after attestation, like a
 * machine that joins. Each step depends only on the record and the disk.
 */
export { rotationWorker } from './rotation-worker.ts';
export { KeyRotationError } from './errors.ts';
export { INITIAL_STAGE, KeyStore, oldGeneration } from './key-store.ts';
export {
  isSetOf,
  nodeKeysWorker,
  type CertificateIssuers,
  type KeyRotationDriver,
} from './node-keys-worker.ts';
export { installSharedKeys } from './install-shared-keys.ts';
export { verifyClientsCa, verifyKeySet, verifyServersCa } from './verify-keys.ts';
