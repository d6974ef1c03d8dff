/**
 * This node's part in replacing the keys that control planes share (internal/keyset says what a phase is).
 *
 * ```
 * operator ─ RotateKeys ─▶ record: asked ──▶ advance (control planes): make ─▶ hand ─▶ believe ─▶ … ─▶ done
 *                                              ▲ everybody has reached it           │
 *      status: what a node has finished ───────┘             directory: "GEN/PHASE" ▼
 *                                          keys (all nodes): fetch │ enforce, follow ─▶ refresh ─▶ finished, on disk
 * ```
 * Everybody learns of a phase through curators, so a control plane whose etcd can't speak to its peers any more learns it
 * too, and gets the keys in a ticket, by evidence, as one that joins. Whatever is done is a function of record and disk.
 */
export { advanceWorker, type AdvanceOptions } from './advance-worker.ts';
export { NodeKeysError, nodeKeysErrors, type NodeKeysErrorCode } from './errors.ts';
export { KeyStore, type KeyPlaces } from './key-store.ts';
export { keysWorker, type KeysDriver, type KeysWorkerOptions, type MadeKeys } from './keys-worker.ts';
export { settleSharedKeys } from './settle.ts';
