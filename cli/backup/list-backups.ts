import { join } from 'node:path';
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
import { readKnownEpoch } from './verify-backup.ts';
import { newestFirst } from './plan-retention.ts';
import { isProof, readProofMs } from './proof-file.ts';

/** Error codes for a directory without a workspace, and for a workspace without a cluster. */
const NO_CLUSTER: readonly string[] = ['workspace-missing', 'cluster-not-initialized'];

/** A backup file in a directory. */
export interface ListedBackup {
  readonly file: string;
  readonly sizeBytes: number;
  /**
   * `good`: complete, unchanged, and of the workspace's cluster and owner. `owner-unknown`: complete and unchanged, but
   * not certified by an owner that the workspace knows, so anybody may have made it. Otherwise the error code with
   * which the file was refused.
   */
  readonly status: string;
  readonly header: BackupHeader | undefined;
  /** When an owner's `backup verify` last proved a good file; undefined for others. */
  readonly provedMs: number | undefined;
}

/** All backups in a directory, by cluster, and newest first. The whole of each file is read. */
export async function listBackups(
  context: CommandContext,
  directory: string,
): Promise<readonly ListedBackup[]> {
  const trusted = await ownClusterOf(context);
  const found: ListedBackup[] = [];
  for (const name of await context.ports.files.list(directory)) {
    const path = join(directory, name);
    if (isProof(name) || (await context.ports.files.stat(path))?.kind !== 'file') continue;
    const each = await inspectBackup(context, path, trusted);
    if (each.status !== 'backup-not-a-backup') found.push({ ...each, file: name });
  }
  const clusterOf = ({ header }: ListedBackup): string => header?.clusterId ?? '~';
  // Revisions of two clusters cannot be compared.
  return found.toSorted((a, b) => compare(clusterOf(a), clusterOf(b)) || newestFirst(a, b));
}

function compare(a: string, b: string): number {
  return a === b ? 0 : a < b ? -1 : 1;
}

/** The cluster of the workspace and the owners that it knows. */
export interface OwnCluster {
  readonly clusterId: string;
  /** Raw Ed25519 keys. */
  readonly owners: readonly Uint8Array[];
  /** Highest known epoch. */
  readonly epoch: number;
}

/** The cluster of the workspace; undefined without a workspace or a cluster. */
export async function ownClusterOf(context: CommandContext): Promise<OwnCluster | undefined> {
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
export async function inspectBackup(
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
    const { sha256 } = await verifyBackup(streams.readChunks(file, { signal }), { clusterId, epoch, owners });
    const isOwn =
      trusted?.clusterId === clusterId &&
      owners.every((key) => trusted.owners.some((each) => Buffer.compare(each, key) === 0));
    if (isOwn) refuseOlderEpoch(header, trusted.epoch);
    const provedMs = isOwn ? await readProofMs(ports.files, file, { sha256, ...trusted }) : undefined;
    return { file, sizeBytes, status: isOwn ? 'good' : 'owner-unknown', header, provedMs };
  } catch (error) {
    signal.throwIfAborted();
    const code = findCoded(error)?.code;
    if (code?.startsWith('backup-') !== true) throw error;
    return { file, sizeBytes, status: code, header, provedMs: undefined };
  }
}
