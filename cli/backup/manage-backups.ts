import { dirname, join } from 'node:path';
import { readBackupHeader } from '../../internal/backup/index.ts';
import { DiskStreams } from '../../internal/file/index.ts';
import type { CommandContext } from '../app/command.ts';
import { formatBytes } from '../host/index.ts';
import { confirmLoss, renderLosses } from '../loss/index.ts';
import { renderHeader, viewOf } from './backup-view.ts';
import { BackupCommandError } from './errors.ts';
import { inspectBackup, listBackups, ownClusterOf, type ListedBackup } from './list-backups.ts';
import { removeBackup } from './proof-file.ts';

/** `cluster backup show`: the header, without a key. Only the signature of the header is verified. */
export async function runBackupShow({ host, signal }: CommandContext, file: string): Promise<void> {
  const header = await readBackupHeader(new DiskStreams().readChunks(file, { signal }));
  host.result(viewOf(header), () => renderHeader(header));
}

/** `cluster backup ls`: all backups in a directory, newest first. The whole of each file is read. */
export async function runBackupList(context: CommandContext, directory: string): Promise<void> {
  if ((await context.ports.files.stat(directory))?.kind !== 'directory')
    throw new BackupCommandError('backup-not-found', `directory ${directory} not found`);
  const listed = await listBackups(context, directory);
  const views = listed.map(({ file, sizeBytes, status, header, provedMs }) => ({
    ...{ file, sizeBytes, status, proof: proofOf({ status, provedMs }) },
    ...(provedMs === undefined ? {} : { provedAt: new Date(provedMs).toISOString() }),
    ...(header === undefined ? {} : viewOf(header)),
  }));
  context.host.list({
    data: { backups: views },
    items: listed,
    nameOf: ({ file }) => file,
    columns: [
      { title: 'FILE', textOf: ({ file }) => file },
      {
        title: 'TAKEN',
        textOf: ({ header }) => (header === undefined ? '<none>' : new Date(header.takenMs).toISOString()),
      },
      { title: 'CLUSTER', textOf: ({ header }) => header?.clusterName ?? '<none>' },
      { title: 'EPOCH', textOf: ({ header }) => String(header?.epoch ?? '<none>') },
      { title: 'SIZE', textOf: ({ sizeBytes }) => formatBytes(sizeBytes) },
      { title: 'STATUS', textOf: ({ status }) => status },
      { title: 'PROOF', textOf: proofOf },
    ],
  });
}

/** `cluster backup delete`: deletes a file unless it is the last good backup of its cluster in its directory. */
export async function runBackupDelete(
  context: CommandContext,
  file: string,
  { yes, dryRun }: { readonly yes: boolean; readonly dryRun: boolean },
): Promise<void> {
  const trusted = await ownClusterOf(context);
  if ((await context.ports.files.stat(file)) === undefined)
    throw new BackupCommandError('backup-not-found', `deleting backup: ${file} not found`);
  const own = await inspectBackup(context, file, trusted);
  const others = (await listBackups(context, dirname(file))).filter(
    (each) => join(dirname(file), each.file) !== join(file),
  );
  // A backup from before a recovery of the cluster counts as well: it can be restored if there is no newer one.
  const isComplete =
    ['good', 'backup-epoch-old'].includes(own.status) ||
    (own.status === 'owner-unknown' && trusted === undefined);
  const hasOther = others.some(
    ({ status, header }) => status === 'good' && header?.clusterId === own.header?.clusterId,
  );
  if (isComplete && !hasOther)
    throw new BackupCommandError('backup-last-good', `deleting backup ${file}: no other good backup`);
  if (own.header === undefined)
    throw new BackupCommandError('backup-last-good', `deleting ${file}: it is not a backup (${own.status})`);
  const losses = [`backup ${file}`];
  if (dryRun) {
    context.host.result({ file, dryRun, losses }, () => `Would delete:\n${renderLosses(losses)}`);
    return;
  }
  await confirmLoss(context, { doing: `deleting backup ${file}`, losses, yes });
  await removeBackup(context.ports.files, file);
  context.host.result({ file }, () => `Backup ${file} deleted.`);
}

/** The column PROOF: a good file is at least TAKEN. Any other file proves nothing. */
function proofOf({ status, provedMs }: Pick<ListedBackup, 'status' | 'provedMs'>): string {
  if (status !== 'good') return '<none>';
  return provedMs === undefined ? 'TAKEN' : 'FILE-PROVED';
}
