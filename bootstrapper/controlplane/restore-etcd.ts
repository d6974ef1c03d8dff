import type { BlobStore } from '../../internal/bundle/index.ts';
import type { EtcdClient } from '../../internal/etcd/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import {
  consensusLayout,
  ETCD_INSTANCES,
  ETCD_NAMES,
  forgetKubernetesNodes,
  raiseEpoch,
  readEpoch,
  restoreFirstMember,
  writeEpoch,
  type EtcdName,
  type EtcdPairConfig,
} from '../consensus/index.ts';
import type { InitRestore } from '../initserver/index.ts';
import { PATHS } from '../kubernetes/index.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';

const ANSWER_MS = 10_000;

/** The uploaded snapshots of both etcd clusters. */
export type Snapshots = Pick<BlobStore, 'verify' | 'remove'>;

/** Size of the uploaded snapshots of a restore, and so of the databases that are restored from them; 0 without a restore. */
export async function snapshotBytes(
  { files, blobs }: { readonly files: FilePort; readonly blobs: Pick<BlobStore, 'has' | 'path'> },
  restore: InitRestore | undefined,
): Promise<number> {
  if (restore === undefined) return 0;
  const { stateSnapshotSha256, kubernetesSnapshotSha256 } = restore;
  let sum = 0;
  for (const sha256 of [stateSnapshotSha256, kubernetesSnapshotSha256])
    if (await blobs.has(sha256)) sum += (await files.stat(await blobs.path(sha256)))?.sizeBytes ?? 0;
  return sum;
}

/**
 * Restores the data of both etcd clusters on a machine that has no etcd data, and then deletes the snapshots. The join
 * service distributes the blobs of this machine, and must never distribute the snapshots. May be repeated after any
 * crash.
 */
export async function restoreEtcdData(
  ports: Pick<SystemPorts, 'files' | 'commands' | 'units' | 'log'>,
  restore: InitRestore,
  {
    member,
    snapshots,
    signal,
  }: {
    readonly member: Pick<EtcdPairConfig, 'clusterId' | 'nodeId' | 'address' | 'ports'>;
    readonly snapshots: Snapshots;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const hashes: Readonly<Record<EtcdName, string>> = {
    state: restore.stateSnapshotSha256,
    kubernetes: restore.kubernetesSnapshotSha256,
  };
  for (const name of ETCD_NAMES) {
    const target = {
      ...{ ...member, ports: member.ports[name], etcd: ETCD_INSTANCES[name] },
      layout: consensusLayout(AGENT_PATHS.state, name),
      etcdutlBinary: `${PATHS.bin}/etcdutl`,
    };
    const snapshot = (): Promise<string> => snapshots.verify(hashes[name], signal);
    await restoreFirstMember(ports, target, { snapshot, epoch: restore.epoch, signal });
    ports.log.info('etcd has the data of the backup', { etcd: name, epoch: restore.epoch });
  }
  for (const sha256 of Object.values(hashes)) await snapshots.remove(sha256);
}

/**
 * Starts a new epoch of the restored Kubernetes etcd, so that members of the old cluster do not join it with their
 * data. Deletes the objects that name machines of the old cluster. May be repeated; each call raises the epoch.
 */
export async function startKubernetesEpoch(
  files: FilePort,
  admin: EtcdClient,
  { keptWorkers = [] }: Pick<InitRestore, 'keptWorkers'>,
  signal: AbortSignal,
): Promise<void> {
  const layout = consensusLayout(AGENT_PATHS.state, 'kubernetes');
  await forgetKubernetesNodes(admin, keptWorkers, signal);
  const at = { name: 'kubernetes', before: await readEpoch(files, layout) } as const;
  const epoch = await raiseEpoch(admin, at, { signal, timeoutMs: ANSWER_MS });
  if (epoch !== undefined) await writeEpoch(files, layout, epoch);
}
