import { basename, join } from 'node:path';
import { DAY_MS } from '../../internal/clock/index.ts';
import type { CommandContext } from '../app/command.ts';
import { readCaller } from '../cluster/index.ts';
import { formatBytes } from '../host/index.ts';
import { renderHeader, viewOf } from './backup-view.ts';
import { createBackup, type BackupCreateOptions } from './create-backup.ts';
import { BackupCommandError } from './errors.ts';
import { listBackups } from './list-backups.ts';
import { planRetention } from './plan-retention.ts';
import { removeBackup } from './proof-file.ts';
import { proveBackup } from './verify-backup.ts';

/**
 * A file that an interrupted run left is deleted after this time: no run takes that long, so no run still writes the
 * file.
 */
const LEFTOVER_MS = DAY_MS;
const PARTIAL = '.backup.partial';

/** Flags of `cluster backup create --into`. */
export interface BackupIntoOptions extends Omit<BackupCreateOptions, 'to'> {
  /** An existing directory. */
  readonly directory: string;
  /** How many good backups stay; undefined: all. */
  readonly keep: number | undefined;
  /** Decrypt the new backup and restore it into an empty etcd. */
  readonly prove: boolean;
  /** Directory for the decrypted data. */
  readonly workDir: string | undefined;
}

/**
 * `cluster backup create --into`: takes a backup into a directory under a name of its own, proves it, and then deletes
 * the oldest ones (`plan-retention.ts`). If any step fails, no older backup has been deleted. Made for timers: it never
 * prompts.
 */
export async function runBackupInto(context: CommandContext, options: BackupIntoOptions): Promise<void> {
  const { files, clock } = context.ports;
  const { directory, keep, prove, workDir, ...backup } = options;
  if ((await files.stat(directory))?.kind !== 'directory')
    throw new BackupCommandError('backup-not-found', `creating a backup: directory ${directory} not found`);
  const { readName, clusterId } = await readCaller(context);
  const name = await readName();
  const stamp = new Date(clock.nowMs()).toISOString().replace(/[-:.]/g, '');
  const to = join(directory, `${name === '' ? clusterId : name}-${stamp}.backup`);
  const { header, sha256, sizeBytes } = await createBackup(context, { ...backup, to });
  if (prove) await proveBackup(context, to, { recoveryKey: undefined, workDir });
  const deleted = keep === undefined ? [] : await deleteOldest(context, directory, keep);
  const proof = prove ? 'FILE-PROVED' : 'TAKEN';
  context.host.result({ file: to, sizeBytes, sha256, proof, deleted, ...viewOf(header) }, () =>
    [
      renderHeader(header),
      `File: ${to}, ${formatBytes(sizeBytes)}, SHA-256 ${sha256}, ${proof}`,
      ...deleted.map((file) => `Deleted: ${file}`),
    ].join('\n'),
  );
}

async function deleteOldest(
  context: CommandContext,
  directory: string,
  keep: number,
): Promise<readonly string[]> {
  const { files, clock } = context.ports;
  const chosen = planRetention(await listBackups(context, directory), keep);
  const deleted = chosen.map(({ file }) => join(directory, basename(file)));
  for (const path of deleted) await removeBackup(files, path);
  for (const name of await files.list(directory)) {
    const path = join(directory, name);
    const stat = name.endsWith(PARTIAL) ? await files.stat(path) : undefined;
    if (stat?.kind === 'file' && stat.modifiedMs + LEFTOVER_MS < clock.nowMs()) await files.remove(path);
  }
  return deleted;
}
