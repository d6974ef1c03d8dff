import { readBackupHeader, verifyBackup } from '../../../internal/backup/index.ts';
import { findCoded } from '../../../internal/errors/index.ts';
import { DiskStreams } from '../../../internal/file/index.ts';
import { printable } from '../../../internal/printable/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { callCurator, readCaller } from '../../cluster/index.ts';
import { formatBytes } from '../../host/index.ts';
import { renderHeader, viewOf } from '../backup-view.ts';
import { BackupCommandError } from '../errors.ts';
import { contentProof, readClusterBackups, type KeptBackup } from './schedule-view.ts';

const FILE_MODE = 0o600;
/** Another control plane may still respond. */
const NO_RESPONSE: readonly string[] = ['streams-node-away', 'streams-node-gone', 'streams-node-silent'];

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
      backups: listed.map((each) => {
        const { takenMs, provedMs, proofPlace, ...rest } = each;
        return {
          ...rest,
          copied: isCopied(each),
          takenAt: new Date(takenMs).toISOString(),
          proof: contentProof({ provedMs }),
          ...(proofPlace && { proofPlace: proofPlace.place, proofBytes: proofPlace.sizeBytes }),
          ...(provedMs === undefined ? {} : { provedAt: new Date(provedMs).toISOString() }),
        };
      }),
    },
    items: listed,
    nameOf: ({ name }) => name,
    columns: [
      { title: 'NAME', textOf: ({ name }) => name },
      { title: 'NODE', textOf: (each) => each.node },
      { title: 'TAKEN', textOf: ({ takenMs }) => new Date(takenMs).toISOString() },
      { title: 'EPOCH', textOf: ({ epoch }) => String(epoch) },
      { title: 'SIZE', textOf: ({ sizeBytes }) => formatBytes(sizeBytes) },
      { title: 'PROOF', textOf: renderContentProof },
      ...(copies.length === 0
        ? []
        : [{ title: 'COPIED', textOf: (each: KeptBackup) => (isCopied(each) ? 'yes' : 'no') }]),
    ],
  });
}

function renderContentProof({ provedMs, proofPlace }: KeptBackup): string {
  const proof = contentProof({ provedMs });
  return proofPlace?.place === 'clear' ? `${proof} (on an unencrypted disk)` : proof;
}

/** Flags of `cluster backup fetch`. */
export interface BackupFetchOptions {
  /** Name of the backup; undefined: the newest that was proved. */
  readonly name: string | undefined;
  /** Path of the new file. */
  readonly to: string;
}

/**
 * `cluster backup fetch`: copies a backup from the control plane that keeps it, and verifies it. Without a name, a backup whose
 * control plane does not respond is passed over.
 */
export async function runBackupFetch(context: CommandContext, options: BackupFetchOptions): Promise<void> {
  const { to } = options;
  if ((await context.ports.files.stat(to)) !== undefined)
    throw new BackupCommandError('backup-file-exists', `fetching a backup to ${to}: the file exists`);
  const [first, ...others] = choose((await readClusterBackups(context)).backups, options.name);
  const { chosen, found } = await fetchFirst(context, to, first, others);
  const { header, sha256, sizeBytes } = found;
  const proof = contentProof(chosen);
  context.host.result(
    { file: to, name: chosen.name, node: chosen.node, sizeBytes, sha256, proof, ...viewOf(header) },
    () =>
      [
        renderHeader(header),
        `File: ${to}, ${formatBytes(sizeBytes)}, SHA-256 ${sha256}, ${proof}`,
        `Prove that your key opens it: cluster backup verify ${to}`,
      ].join('\n'),
  );
}

type Verified = Awaited<ReturnType<typeof verifyBackup>>;

/** Fetches the first backup whose control plane responds. */
async function fetchFirst(
  context: CommandContext,
  to: string,
  chosen: KeptBackup,
  others: readonly KeptBackup[],
): Promise<{ readonly chosen: KeptBackup; readonly found: Verified }> {
  try {
    return { chosen, found: await fetchOne(context, to, chosen) };
  } catch (error) {
    const [next, ...rest] = others;
    if (next === undefined || !NO_RESPONSE.includes(findCoded(error)?.code ?? '')) throw error;
    context.host.warn(
      'backup-fetch-passed-over',
      `${printable(chosen.node)} does not respond: fetching the next older backup instead of ${chosen.name}`,
    );
    return fetchFirst(context, to, next, rest);
  }
}

async function fetchOne(context: CommandContext, to: string, chosen: KeptBackup): Promise<Verified> {
  const { host, ports, signal } = context;
  const { clusterId, pubKey, vouchers } = await readCaller(context);
  const partial = `${to}.partial`;
  const streams = new DiskStreams();
  const title = `Fetching ${printable(chosen.name)} from ${printable(chosen.node)}`;
  return host.step('backup-fetch', title, async (progress) => {
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
}

/** The backup with the name; without one, the proved backups, newest first. @throws BackupCommandError `backup-not-kept` */
function choose(
  backups: readonly KeptBackup[],
  name: string | undefined,
): readonly [KeptBackup, ...KeptBackup[]] {
  const [first, ...others] = backups.filter((each) =>
    name === undefined ? each.provedMs !== undefined : each.name === name,
  );
  if (first !== undefined) return [first, ...(name === undefined ? others : [])];
  throw new BackupCommandError(
    'backup-not-kept',
    name === undefined ? 'no proved backup found in the cluster' : `backup ${JSON.stringify(name)} not found`,
  );
}
