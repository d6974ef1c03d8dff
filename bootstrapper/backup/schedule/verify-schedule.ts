import { dirname } from 'node:path';
import { z } from 'zod';
import {
  parseBackupCertificate,
  verifyBackupCertificate,
  type ScheduleCertificate,
} from '../../../internal/backup/index.ts';
import type { Clock } from '../../../internal/clock/index.ts';
import { readJson, type FilePort } from '../../../internal/file/index.ts';
import { BackupTaskError } from '../errors.ts';
import { refuseOtherWorkspace } from '../take-backup.ts';

const MAX_BYTES = 1024;
const floorShape = z.strictObject({
  version: z.literal(1),
  epoch: z.int().positive(),
  issuedMs: z.int().positive(),
});

/** The keys and facts with which this node verifies a schedule. None of them comes from etcd. */
export interface ScheduleTrust {
  readonly files: FilePort;
  readonly clock: Clock;
  readonly clusterId: string;
  /** Raw Ed25519 keys of the owners, from this machine's provisioning. */
  readonly ownerKeys: readonly Uint8Array[];
  /** File in which this node records the newest schedule that it has followed. */
  readonly newestSchedule: string;
}

/**
 * Verifies that an owner signed a schedule, and that this node has not followed a newer schedule before. Otherwise a
 * compromised curator could restore an old schedule with recovery keys that are no longer trusted. The schedule may have expired
 * (`requireCurrent()`).
 * @throws BackupError, BackupTaskError `backup-schedule-invalid`
 */
export async function verifySchedule(
  { files, clusterId, ownerKeys, newestSchedule }: ScheduleTrust,
  stored: { readonly certificate: Uint8Array; readonly workspace: Uint8Array },
): Promise<ScheduleCertificate> {
  const certificate = parseBackupCertificate(stored.certificate);
  const invalid = (why: string): BackupTaskError =>
    new BackupTaskError('backup-schedule-invalid', `reading the schedule of backups: ${why}`);
  if (certificate.version !== 2) throw invalid('signed for a single backup');
  verifyBackupCertificate(certificate, { clusterId, owners: ownerKeys });
  refuseOtherWorkspace(certificate, stored.workspace);
  const { epoch, issuedMs } = certificate;
  const { data: floor } = floorShape.safeParse(await readJson(files, newestSchedule, MAX_BYTES));
  const isOlder =
    floor !== undefined && (epoch < floor.epoch || (epoch === floor.epoch && issuedMs < floor.issuedMs));
  if (isOlder) throw invalid(`signed ${new Date(issuedMs).toISOString()}, before the schedule followed last`);
  if (floor?.epoch !== epoch || floor.issuedMs !== issuedMs) {
    await files.makeDirectory(dirname(newestSchedule));
    await files.writeAtomic(newestSchedule, `${JSON.stringify({ version: 1, epoch, issuedMs })}\n`);
  }
  return certificate;
}

/** Refuses a schedule outside the time for which the owner signed it. @throws BackupError `backup-certificate-invalid` */
export function requireCurrent(
  { clock, clusterId, ownerKeys }: ScheduleTrust,
  certificate: ScheduleCertificate,
): void {
  verifyBackupCertificate(certificate, { clusterId, owners: ownerKeys, nowMs: Math.round(clock.nowMs()) });
}
