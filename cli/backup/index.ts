/**
 * `cluster backup`: takes backups of a running cluster, and shows, verifies, lists and deletes backup files. The file format is in
 * `internal/backup`; a control plane takes the backup (`bootstrapper/backup`).
 */
export { runBackupInto, type BackupIntoOptions } from './backup-into.ts';
export { runBackupFetch, runClusterBackupList, type BackupFetchOptions } from './schedule/cluster-backups.ts';
export { runBackupCreate, type BackupCreateOptions } from './create-backup.ts';
export { restoreAndCompare, type DrillResult } from './drill.ts';
export { BackupCommandError, backupErrors } from './errors.ts';
export { readRecoveryKey, readRecoveryKeyFile } from './recovery-key.ts';
export { runBackupDelete, runBackupList, runBackupShow } from './manage-backups.ts';
export { runRestore, type RestoreOptions } from './restore-backup.ts';
export { restoreWorkspace } from './workspace-part.ts';
export {
  runScheduleSet,
  runScheduleShow,
  runScheduleStop,
  type ScheduleOptions,
} from './schedule/schedule.ts';
export { isStoreUrl, refuseStoreFlags, type StoreFlags } from './store/store-access.ts';
export { runStoreFetch, runStoreList } from './store/store-backups.ts';
export { clusterBackupsFrom, type ClusterBackups, type KeptBackup } from './schedule/schedule-view.ts';
export { runBackupVerify, type BackupVerifyOptions } from './verify-backup.ts';
