import type { ScheduleCertificate } from '../../../internal/backup/index.ts';
import type { KeySpace } from '../../../internal/etcd/index.ts';
import {
  BACKUP_SCHEDULE_KEY,
  KEPT_BACKUPS_PREFIX,
  records,
  type BackupRecord,
} from '../../../internal/records/index.ts';
import { verifySchedule, type ScheduleTrust } from './verify-schedule.ts';

/** A schedule that an owner signed, and the sealed part `workspace` of each backup. */
export interface StoredSchedule {
  readonly certificate: ScheduleCertificate;
  readonly workspace: Uint8Array;
}

/**
 * The schedule of the cluster, verified; undefined if there is none.
 * @throws BackupError, BackupTaskError `backup-schedule-invalid`
 */
export async function readSchedule(
  trust: ScheduleTrust,
  etcd: KeySpace,
  signal: AbortSignal,
): Promise<StoredSchedule | undefined> {
  const { record: stored } = await records.backupSchedule.read(etcd, BACKUP_SCHEDULE_KEY, signal);
  if (stored === undefined) return undefined;
  const workspace = new Uint8Array(Buffer.from(stored.workspace, 'base64'));
  const certificate = await verifySchedule(trust, {
    certificate: new Uint8Array(Buffer.from(stored.certificate, 'base64')),
    workspace,
  });
  return { certificate, workspace };
}

/** All backups of the cluster that control planes keep. */
export async function listKeptBackups(etcd: KeySpace, signal: AbortSignal): Promise<readonly BackupRecord[]> {
  const { entries } = await etcd.list(KEPT_BACKUPS_PREFIX, { signal });
  return entries.map(({ key, value }) => records.backup.decode(key, value));
}
