import { DiskStreams } from '../../../internal/file/index.ts';
import { formatBytes } from '../../../internal/printable/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { renderHeader, viewOf } from '../backup-view.ts';
import { BackupCommandError } from '../errors.ts';
import { inspectBackup, ownClusterOf } from '../list-backups.ts';
import { copyStoreFrom, openStore, type StoreFlags } from './store-access.ts';

/** "PREFIX/CLUSTER-ID/NODE-ID/NAME", as control planes name their copies; the name begins with number and time. */
const KEY = /(?:^|\/)([0-9a-z-]{1,64})\/(node-[0-9a-f]{32})\/[0-9]{8}-([0-9]{8}T[0-9]{9}Z)\.backup$/;
const STAMP = /^(....)(..)(..)T(..)(..)(..)(...)Z$/;
const FILE_MODE = 0o600;
/** Complete and unchanged files; also of a cluster, an owner or an epoch that the workspace does not know. */
const COMPLETE: readonly string[] = ['good', 'owner-unknown', 'backup-epoch-old'];

/** `cluster backup ls s3://BUCKET/PREFIX`: what control planes have copied there, newest first. Needs no cluster; the files are not read. */
export async function runStoreList(context: CommandContext, url: string, flags: StoreFlags): Promise<void> {
  const target = await copyStoreFrom(context, url, flags);
  const store = await openStore(context, target, flags);
  const under = target.prefix === '' ? '' : `${target.prefix}/`;
  const found = (await store.list(under, context.signal)).flatMap(({ key, sizeBytes }) => {
    const [, clusterId = '', nodeId = '', stamp = ''] = KEY.exec(key) ?? [];
    const takenAt = stamp.replace(STAMP, '$1-$2-$3T$4:$5:$6.$7Z');
    return stamp === ''
      ? []
      : [{ url: `s3://${target.bucket}/${key}`, clusterId, nodeId, takenAt, sizeBytes }];
  });
  const items = found.toSorted((a, b) => (a.takenAt < b.takenAt ? 1 : -1));
  context.host.list({
    data: { backups: items },
    items,
    nameOf: (each) => each.url,
    columns: [
      { title: 'NAME', textOf: (each) => each.url },
      { title: 'TAKEN', textOf: ({ takenAt }) => takenAt },
      { title: 'SIZE', textOf: ({ sizeBytes }) => formatBytes(sizeBytes) },
    ],
  });
}

/**
 * `cluster backup fetch s3://BUCKET/KEY`: copies a backup from the store and verifies its signatures. Needs no cluster: after a loss of
 * every machine, `cluster restore` takes the file.
 */
export async function runStoreFetch(
  context: CommandContext,
  { url, to, ...flags }: StoreFlags & { readonly url: string; readonly to: string },
): Promise<void> {
  const { host, ports, signal } = context;
  if ((await ports.files.stat(to)) !== undefined)
    throw new BackupCommandError('backup-file-exists', `fetching a backup to ${to}: the file exists`);
  const target = await copyStoreFrom(context, url, flags);
  const { prefix: key } = target;
  const store = await openStore(context, target, flags);
  const partial = `${to}.partial`;
  const streams = new DiskStreams();
  const { status, header, sizeBytes } = await host.step(
    'backup-fetch',
    `Fetching ${url}`,
    async (progress) => {
      const [object] = await store.list(key, signal);
      if (object?.key !== key)
        throw new BackupCommandError('backup-not-kept', `the store has no object ${url}`);
      await ports.files.remove(partial);
      await streams.writeAt(partial, 0, new Uint8Array());
      let received = 0;
      await store.read(key, signal, async (data) => {
        await streams.writeAt(partial, received, data);
        received += data.length;
        progress.update(`${formatBytes(received)} of ${formatBytes(object.sizeBytes)}`);
        return received <= object.sizeBytes;
      });
      progress.update('verifying the file');
      const found = await inspectBackup(context, partial, await ownClusterOf(context));
      if (found.header === undefined || !COMPLETE.includes(found.status) || received !== object.sizeBytes)
        throw new BackupCommandError(
          'backup-fetched-damaged',
          `fetching ${url}: ${received} bytes: ${found.status}`,
        );
      await streams.publish(partial, to, FILE_MODE);
      return { ...found, header: found.header };
    },
  );
  host.result({ file: to, url, status, sizeBytes, ...viewOf(header) }, () =>
    [
      renderHeader(header),
      `File: ${to}, ${formatBytes(sizeBytes)}, ${status}`,
      `Prove that your key opens it: cluster backup verify ${to}`,
    ].join('\n'),
  );
}
