/**
 * Finds out that the disk of this machine is an old copy: a restored snapshot or image, or files of a backup. On such a disk the
 * machine would accept owner documents again that newer ones have replaced.
 *
 * ```
 * serials of accepted documents ──▶ RollbackGuard ──▶ floors.json {count, serials} ◀─ compared ─▶ NV counter of the TPM
 *  (agent's files, signer's files)        │
 *                                         └── old disk: signedAfterMs ──▶ agent's floors, configuration of the signer
 * ```
 *
 * docs/decisions/owner-documents.md says what such a machine may still do, and how an owner ends it. Without a TPM there is nothing
 * to compare with.
 */
export { FLOOR_COUNTER, RollbackGuard, type FloorRecord } from './rollback-guard.ts';
export { rollbackRunnable } from './rollback-runnable.ts';
