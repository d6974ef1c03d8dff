/**
 * Takes backups of the cluster on a control plane: both etcd clusters, the shared keys and the configuration, encrypted to recovery keys
 * that an owner named. One that an owner orders is a stream, and nothing is written to the disk of the node. Those of a schedule are kept
 * in a ring on the disk, and their content is proved:
 *
 * ```
 * backups/schedule (etcd) ─▶ verifySchedule ─▶ planBackup ─▶ claim ─▶ streamBackup ─▶ ring (TAKEN)
 *                                                               └ snapshots ─▶ throwaway etcd ─▶ proveContent (CONTENT-PROVED)
 * ```
 *
 * A further worker copies the proved ones to a directory or to an S3-compatible store (`CopyTarget`).
 */
export { BackupRing } from './schedule/backup-ring.ts';
export { backupCopyWorker } from './schedule/copy-worker.ts';
export { backupScheduleWorker } from './schedule/schedule-worker.ts';
export { readStoreCredentials } from './schedule/store-credentials.ts';
export { createBackupTask } from './take-backup.ts';
