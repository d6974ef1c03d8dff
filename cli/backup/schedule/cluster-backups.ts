import { readBackupHeader, verifyBackup } from '../../../internal/backup/index.ts';
import { DiskStreams } from '../../../internal/file/index.ts';
import { printable } from '../../../internal/printable/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { callCurator, readCaller } from '../../cluster/index.ts';
import { formatBytes } from '../../host/index.ts';
import { renderHeader, viewOf } from '../backup-view.ts';
import { BackupCommandError } from '../errors.ts';
import { contentProof, readClusterBackups, type KeptBackup } from './schedule-view.ts';

const FILE_MODE = 0o600;

/** `cluster backup ls` without a directory: the backups that control planes keep, newest first. */
export async function runClusterBackupList(
  context: CommandContext,
  { node }: { readonly node: string | undefined },
): Promise<void> {
  const { backups, copies } = await readClusterBackups(context);
  const isCopied = ({ nodeId, name }: KeptBackup): boolean =>
    copies.some((each) => each.nodeId === nodeId && each.names.includes(name));
  const listed = backups.filter((each) => node === undefined || [each.node, each.nodeId].includes(node));
  context.host.list({
    data: {
      backups: listed.map(({ takenMs, provedMs, ...rest }) => ({
        ...rest,
        copied: isCopied({ takenMs, provedMs, ...rest }),
        takenAt: new Date(takenMs).toISOString(),
        proof: contentProof({ provedMs }),
        ...(provedMs === undefined ? {} : { provedAt: new Date(provedMs).toISOString() }),
      })),
    },
    items: listed,
    nameOf: ({ name }) => name,
    columns: [
      { title: 'NAME', textOf: ({ name }) => name },
      { title: 'NODE', textOf: (each) => each.node },
      { title: 'TAKEN', textOf: ({ takenMs }) => new Date(takenMs).toISOString() },
      { title: 'EPOCH', textOf: ({ epoch }) => String(epoch) },
      { title: 'SIZE', textOf: ({ sizeBytes }) => formatBytes(sizeBytes) },
      { title: 'PROOF', textOf: contentProof },
      ...(copies.length === 0
        ? []
        : [{ title: 'COPIED', textOf: (each: KeptBackup) => (isCopied(each) ? 'yes' : 'no') }]),
    ],
  });
}

/** Flags of `cluster backup fetch`. */
export interface BackupFetchOptions {
  /** Name of the backup; undefined: the newest that was proved. */
  readonly name: string | undefined;
  /** Path of the new file. */
  readonly to: string;
}

/** `cluster backup fetch`: copies a backup from the control plane that keeps it, and verifies it. */
export async function runBackupFetch(
  context: CommandContext,
  { name, to }: BackupFetchOptions,
): Promise<void> {
  const { host, ports, signal } = context;
  if ((await ports.files.stat(to)) !== undefined)
    throw new BackupCommandError('backup-file-exists', `fetching a backup to ${to}: the file exists`);
  const { clusterId, pubKey, vouchers } = await readCaller(context);
  const chosen = choose((await readClusterBackups(context)).backups, name);
  const partial = `${to}.partial`;
  const streams = new DiskStreams();
  const title = `Fetching ${printable(chosen.name)} from ${printable(chosen.node)}`;
  const { header, sha256, sizeBytes } = await host.step('backup-fetch', title, async (progress) => {
    await callCurator(context, async ({ nodeStreams }) => {
      await ports.files.remove(partial);
      let received = 0;
      const request = { node: chosen.nodeId, backup: { name: chosen.name } };
      for await (const { data } of nodeStreams.fetchBackup(request)) {
        await streams.writeAt(partial, received, data);
        received += data.length;
        progress.update(`${formatBytes(received)} of ${formatBytes(chosen.sizeBytes)}`);
      }
    });
    progress.update('verifying the file');
    const owners = [pubKey, ...vouchers.map(({ by }) => by)];
    const found = await verifyBackup(streams.readChunks(partial, { signal }), {
      ...{ clusterId, owners },
      epoch: (await readBackupHeader(streams.readChunks(partial, { signal }))).epoch,
    });
    if (found.sha256 !== chosen.sha256)
      throw new BackupCommandError(
        'backup-fetched-differs',
        `fetching backup ${chosen.name}: SHA-256 ${found.sha256}, the cluster recorded ${chosen.sha256}`,
      );
    await streams.publish(partial, to, FILE_MODE);
    return found;
  });
  const proof = contentProof(chosen);
  host.result(
    { file: to, name: chosen.name, node: chosen.node, sizeBytes, sha256, proof, ...viewOf(header) },
    () =>
      [
        renderHeader(header),
        `File: ${to}, ${formatBytes(sizeBytes)}, SHA-256 ${sha256}, ${proof}`,
        `Prove that your key opens it: cluster backup verify ${to}`,
      ].join('\n'),
  );
}

function choose(backups: readonly KeptBackup[], name: string | undefined): KeptBackup {
  const found = backups.find((each) =>
    name === undefined ? each.provedMs !== undefined : each.name === name,
  );
  if (found !== undefined) return found;
  throw new BackupCommandError(
    'backup-not-kept',
    name === undefined ? 'no proved backup found in the cluster' : `backup ${JSON.stringify(name)} not found`,
  );
}
