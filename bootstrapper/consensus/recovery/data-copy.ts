import type { EtcdClient } from '../../../internal/etcd/index.ts';
import { buildEtcdConfig, buildEtcdUnit } from '../unit/etcd-unit.ts';
import type { SystemPorts } from '../../../internal/platform/index.ts';
import type { ConsensusConfig } from '../consensus-config.ts';
import type { ListenPorts } from '../etcd-instances.ts';
import { connectAsRoot } from '../unit/run-etcd.ts';

/**
 * The unit of the temporary etcd of a quorum recovery. The proof of a backup uses a different unit, so that neither of
 * them stops the etcd of the other.
 */
export const RECOVERY_ETCD_UNIT = 'cluster-etcd-recovery.service';
const COPY_MS = 10 * 60_000;
const SAVE_MS = 10 * 60_000;

/** Configuration of the member from which the quorum is recovered. */
export interface RecoverConfig extends Omit<ConsensusConfig, 'createsCluster'> {
  readonly etcdctlBinary: string;
  readonly etcdutlBinary: string;
  /** Free loopback ports for a temporary member. */
  readonly temporaryPorts: ListenPorts;
}

/**
 * Runs `work` with a temporary one-member etcd on a copy of this member's data. etcd without a quorum answers
 * no requests, so its log cannot be read otherwise. The original data is not changed. The temporary etcd
 * listens on separate loopback ports, and the copy is deleted afterwards.
 */
export async function withDataCopy<T>(
  ports: SystemPorts,
  config: RecoverConfig,
  work: (copy: EtcdClient) => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  const { files, commands, units } = ports;
  const { etcd, layout, temporaryPorts } = config;
  await units.stop(RECOVERY_ETCD_UNIT, signal);
  await units.stop(etcd.unit, signal);
  await files.remove(layout.copiedData);
  const run = (...argv: [string, ...string[]]) => commands.run({ argv, timeoutMs: COPY_MS, signal });
  await run('cp', '--archive', '--reflink=auto', layout.data, layout.copiedData);
  const copied = {
    ...config,
    address: '127.0.0.1',
    ports: temporaryPorts,
    layout: { ...layout, data: layout.copiedData, configFile: `${layout.etcdHome}/recovery.json` },
  };
  const written = JSON.parse(buildEtcdConfig(copied, { kind: 'first' })) as Record<string, unknown>;
  await files.writeAtomic(
    copied.layout.configFile,
    `${JSON.stringify({ ...written, 'force-new-cluster': true })}\n`,
  );
  const owner = `${etcd.systemUser}:${etcd.systemUser}`;
  await run('chown', '--recursive', '--no-dereference', owner, layout.etcdHome);
  await units.install(RECOVERY_ETCD_UNIT, buildEtcdUnit(copied), signal);
  await units.start(RECOVERY_ETCD_UNIT, signal);
  try {
    using copy = await connectAsRoot(ports, layout, [`127.0.0.1:${temporaryPorts.client}`]);
    return await work(copy);
  } finally {
    await units.stop(RECOVERY_ETCD_UNIT, signal);
    await files.remove(layout.copiedData);
  }
}

/**
 * Saves a snapshot of the copied data, with a hash that the restore checks. @returns the path of the snapshot
 */
export async function saveSnapshot(
  { files, commands }: SystemPorts,
  { layout, temporaryPorts, etcdctlBinary }: RecoverConfig,
  signal: AbortSignal,
): Promise<string> {
  const path = `${layout.recovery}/snapshot.db`;
  const { caFile, certFile, keyFile } = layout.user('root');
  await files.makeDirectory(layout.recovery);
  await files.remove(path);
  await commands.run({
    argv: [
      etcdctlBinary,
      ...['--endpoints', `https://127.0.0.1:${temporaryPorts.client}`],
      ...['--cacert', caFile, '--cert', certFile, '--key', keyFile],
      ...['snapshot', 'save', path],
    ],
    timeoutMs: SAVE_MS,
    signal,
  });
  return path;
}
