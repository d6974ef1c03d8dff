import { join } from 'node:path';
import { backupCertificateId, type BackupCertificate } from '../../internal/backup/index.ts';
import { DAY_MS, type Clock } from '../../internal/clock/index.ts';
import { readJson, type FilePort } from '../../internal/file/index.ts';
import { BackupTaskError } from './errors.ts';

const MAX_BYTES = 1024;
/** A record is kept for this long after the end of its certificate, in case the clock was ahead. */
const KEEP_MS = 7 * DAY_MS;

/**
 * Records on disk that this node uses an owner's certificate. One certificate is valid for one backup: otherwise a
 * curator that has seen the certificate could order further backups.
 * @throws BackupTaskError `backup-certificate-used`
 */
export async function claimCertificate(
  { files, clock }: { readonly files: FilePort; readonly clock: Clock },
  directory: string,
  certificate: BackupCertificate,
): Promise<void> {
  await files.makeDirectory(directory);
  await forgetEnded(files, directory, clock.nowMs());
  const id = backupCertificateId(certificate);
  const record = JSON.stringify({ version: 1, endsMs: certificate.endsMs });
  if (await files.createExclusive(join(directory, `${id}.json`), `${record}\n`)) return;
  throw new BackupTaskError('backup-certificate-used', `taking a backup: certificate ${id} was used before`);
}

async function forgetEnded(files: FilePort, directory: string, nowMs: number): Promise<void> {
  for (const name of await files.list(directory)) {
    const record = (await readJson(files, join(directory, name), MAX_BYTES)) as
      { endsMs?: unknown } | undefined;
    // A record that cannot be read is kept.
    if (typeof record?.endsMs === 'number' && record.endsMs + KEEP_MS < nowMs)
      await files.remove(join(directory, name));
  }
}
