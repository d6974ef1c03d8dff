import type { SystemPorts } from '../../../internal/platform/index.ts';
import type { ConsensusConfig } from '../consensus-config.ts';
import { urlOf } from '../unit/etcd-unit.ts';

/**
 * The value from etcd's documentation. It exceeds the number of revisions that can have been written since
 * the snapshot.
 */
const REVISION_BUMP = 1_000_000_000;
/** How long `etcdutl snapshot restore` may take. */
export const RESTORE_MS = 10 * 60_000;

/** The member whose data is restored. */
export interface RestoreTarget extends Pick<
  ConsensusConfig,
  'etcd' | 'layout' | 'nodeId' | 'address' | 'ports' | 'clusterId'
> {
  readonly etcdutlBinary: string;
}

/**
 * Writes the data of a new etcd cluster with the content of a snapshot and one member. Its revisions jump far
 * ahead and all earlier ones are compacted, so that every watcher lists the keys again. The data is in
 * `layout.restoredData` afterwards. etcdutl refuses a snapshot whose hash does not match.
 */
export async function restoreSnapshot(
  { files, commands, units }: Pick<SystemPorts, 'files' | 'commands' | 'units'>,
  { etcd, layout, nodeId, address, ports, clusterId, etcdutlBinary }: RestoreTarget,
  from: { readonly snapshot: string; readonly epoch: number; readonly signal: AbortSignal },
): Promise<void> {
  const peerUrl = urlOf(address, ports.peer);
  await units.stop(etcd.unit, from.signal);
  await files.remove(layout.restoredData);
  await commands.run({
    argv: [
      etcdutlBinary,
      ...['snapshot', 'restore', from.snapshot],
      ...['--data-dir', layout.restoredData, '--name', nodeId],
      ...['--initial-cluster', `${nodeId}=${peerUrl}`, '--initial-advertise-peer-urls', peerUrl],
      ...['--initial-cluster-token', `${clusterId}-${from.epoch}`],
      ...['--bump-revision', String(REVISION_BUMP), '--mark-compacted'],
    ],
    timeoutMs: RESTORE_MS,
    signal: from.signal,
  });
}

/**
 * Restores a snapshot on a machine without etcd data, before its etcd starts for the first time. May be repeated:
 * existing data is kept, because a rename publishes the data only when it is complete.
 */
export async function restoreFirstMember(
  ports: Pick<SystemPorts, 'files' | 'commands' | 'units'>,
  target: RestoreTarget,
  from: { readonly snapshot: () => Promise<string>; readonly epoch: number; readonly signal: AbortSignal },
): Promise<void> {
  const { files } = ports;
  const { layout } = target;
  if ((await files.stat(layout.memberData)) !== undefined) return;
  await files.makeDirectory(layout.etcdHome);
  await restoreSnapshot(ports, target, { ...from, snapshot: await from.snapshot() });
  await files.remove(layout.data); // The data directory is empty, because the member has no data yet.
  await files.rename(layout.restoredData, layout.data);
}
