import { dirname, join } from 'node:path';
import {
  readBackupHeader,
  refuseOlderEpoch,
  verifyBackup,
  type BackupHeader,
} from '../../internal/backup/index.ts';
import { findCoded } from '../../internal/errors/index.ts';
import { DiskStreams } from '../../internal/file/index.ts';
import type { CommandContext } from '../app/command.ts';
import { readCaller } from '../cluster/index.ts';
import { formatBytes } from '../host/index.ts';
import { confirmLoss } from '../loss/index.ts';
import { renderHeader, viewOf } from './backup-view.ts';
import { BackupCommandError } from './errors.ts';
import { readKnownEpoch } from './known-epoch.ts';

/** Codes of a directory without a workspace, and of a workspace without a cluster. */
const NO_CLUSTER: readonly string[] = ['workspace-missing', 'cluster-not-initialized'];

/** `cluster backup show`: the header, without a key. Only the signature of the header is verified. */
export async function runBackupShow({ host, signal }: CommandContext, file: string): Promise<void> {
  const header = await readBackupHeader(new DiskStreams().readChunks(file, { signal }));
  host.result(viewOf(header), () => renderHeader(header));
}

/** A backup file in a directory. */
interface ListedBackup {
  readonly file: string;
  readonly sizeBytes: number;
  /**
   * `good`: complete, unchanged, and of the workspace's cluster and owner. `owner-unknown`: complete and unchanged, but somebody else
   * can have made it. Otherwise the code with which the file was refused.
   */
  readonly status: string;
  readonly header: BackupHeader | undefined;
}

/** `cluster backup ls`: all backups in a directory, newest first. The whole of each file is read. */
export async function runBackupList(context: CommandContext, directory: string): Promise<void> {
  if ((await context.ports.files.stat(directory))?.kind !== 'directory')
    throw new BackupCommandError('backup-not-found', `directory ${directory} not found`);
  const listed = await listBackups(context, directory);
  const views = listed.map(({ file, sizeBytes, status, header }) => ({
    ...{ file, sizeBytes, status },
    ...(header === undefined ? {} : viewOf(header)),
  }));
  context.host.list({
    data: views,
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
    ],
  });
}

/** `cluster backup delete`: deletes a file unless it is the last good backup of its cluster in its directory. */
export async function runBackupDelete(
  context: CommandContext,
  file: string,
  { yes }: { readonly yes: boolean },
): Promise<void> {
  const trusted = await ownClusterOf(context);
  if ((await context.ports.files.stat(file)) === undefined)
    throw new BackupCommandError('backup-not-found', `deleting backup: ${file} not found`);
  const own = await inspect(context, file, trusted);
  const others = (await listBackups(context, dirname(file))).filter(
    (each) => join(dirname(file), each.file) !== join(file),
  );
  // One of an older epoch can be restored too, if there is none that is good.
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
  await confirmLoss(context, { doing: `deleting backup ${file}`, losses: [`backup ${file}`], yes });
  await context.ports.files.remove(file);
  context.host.result({ file }, () => `Backup ${file} deleted.`);
}

async function listBackups(context: CommandContext, directory: string): Promise<readonly ListedBackup[]> {
  const trusted = await ownClusterOf(context);
  const found: ListedBackup[] = [];
  for (const name of await context.ports.files.list(directory)) {
    const path = join(directory, name);
    if ((await context.ports.files.stat(path))?.kind !== 'file') continue;
    const each = await inspect(context, path, trusted);
    if (each.status !== 'backup-not-a-backup') found.push({ ...each, file: name });
  }
  return found.toSorted((a, b) => (b.header?.takenMs ?? 0) - (a.header?.takenMs ?? 0));
}

/** The cluster of the workspace and the owners that it knows. */
interface OwnCluster {
  readonly clusterId: string;
  /** Raw Ed25519 keys. */
  readonly owners: readonly Uint8Array[];
  /** Highest known epoch. */
  readonly epoch: number;
}

/** The cluster of the workspace; undefined without a workspace or a cluster. */
async function ownClusterOf(context: CommandContext): Promise<OwnCluster | undefined> {
  try {
    const caller = await readCaller(context);
    const { clusterId, pubKey, vouchers } = caller;
    const epoch = await readKnownEpoch(context, caller);
    return { clusterId, owners: [pubKey, ...vouchers.map(({ by }) => by)], epoch };
  } catch (error) {
    if (NO_CLUSTER.includes(findCoded(error)?.code ?? '')) return undefined;
    throw error;
  }
}

/** Reads a whole file, verifies its signatures, and compares cluster and owner with those of the workspace. */
async function inspect(
  { ports, signal }: CommandContext,
  file: string,
  trusted: OwnCluster | undefined,
): Promise<ListedBackup> {
  const streams = new DiskStreams();
  const { sizeBytes = 0 } = (await ports.files.stat(file)) ?? {};
  let header: BackupHeader | undefined;
  try {
    header = await readBackupHeader(streams.readChunks(file, { signal }));
    const { clusterId, epoch, certificate } = header;
    const owners = [new Uint8Array(Buffer.from(certificate.owner, 'base64'))];
    await verifyBackup(streams.readChunks(file, { signal }), { clusterId, epoch, owners });
    const isOwn =
      trusted?.clusterId === clusterId &&
      owners.every((key) => trusted.owners.some((each) => Buffer.compare(each, key) === 0));
    if (isOwn) refuseOlderEpoch(header, trusted.epoch);
    return { file, sizeBytes, status: isOwn ? 'good' : 'owner-unknown', header };
  } catch (error) {
    signal.throwIfAborted();
    const code = findCoded(error)?.code;
    if (code?.startsWith('backup-') !== true) throw error;
    return { file, sizeBytes, status: code, header };
  }
}
