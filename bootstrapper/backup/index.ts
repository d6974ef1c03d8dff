/**
 * Takes backups of the cluster on a control plane: both etcd clusters, the shared keys and the configuration, encrypted
 * to recovery keys that an owner named. A backup that an owner orders is streamed to the owner, and nothing is written
 * to the disk of the node. Scheduled backups are kept in a ring (a fixed number of files) on the disk, and their
 * content is proved:
 *
 * ```
 * backups/schedule (etcd) ─▶ verifySchedule ─▶ planBackup ─▶ claim ─▶ streamBackup ─▶ ring (TAKEN)
 *                                                               └ snapshots ─▶ throwaway etcd ─▶ proveContent (CONTENT-PROVED)
 * ```
 *
 * A further worker copies the proved backups to a directory or to an S3-compatible store (`CopyTarget`).
 */
export { BackupRing } from './schedule/backup-ring.ts';
export { backupCopyWorker } from './schedule/copy-worker.ts';
export { backupScheduleWorker } from './schedule/schedule-worker.ts';
export { readStoreCredentials } from './schedule/store-credentials.ts';
export { createBackupTask } from './take-backup.ts';
