import { z } from 'zod';
import { verifyBackup, type BackupHeader } from '../../internal/backup/index.ts';
import { ed25519PubKeyFrom } from '../../internal/crypto/index.ts';
import { DiskStreams, parseJson } from '../../internal/file/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import type { CommandContext } from '../app/command.ts';
import {
  clusterIdFrom,
  findLiveCluster,
  openWorkspace,
  readSeenEpoch,
  runInit,
  type InitOptions,
  type InitSummary,
  type RestoreSource,
  type SnapshotSource,
} from '../cluster/index.ts';
import { admitControlPlanes, type ChosenMachine } from '../nodes/index.ts';
import { layoutOf, readConfig, readMasterSecret, readOwnerKey, StateFile } from '../workspace/index.ts';
import { BackupCommandError } from './errors.ts';
import { planRestore, refuseOtherConfiguration } from './plan-restore.ts';
import { readRecoveryKey } from './recovery-key.ts';
import { withUnpackedBackup, type SnapshotFile, type UnpackedBackup } from './unpack-backup.ts';
import { restoreWorkspace } from './workspace-part.ts';

/** How long to wait for each machine of `controlPlanes`. */
const JOIN_MS = 10 * 60_000;
const keysShape = z.strictObject({ version: z.literal(1), files: z.record(z.string(), z.string()) });

/** Flags of `cluster restore`. */
export interface RestoreOptions {
  /** File with the owner key, to create the workspace from the backup; undefined: the workspace is there. */
  readonly ownerKey: string | undefined;
  /** Address of the fresh machine; undefined: that of cluster.yaml. */
  readonly node: string | undefined;
  readonly fingerprint: string | undefined;
  /** Machines that become control planes when the first one runs. They ask it to join. */
  readonly controlPlanes: readonly ChosenMachine[];
  /** File with an age identity; undefined: the recovery key of the owner. */
  readonly recoveryKey: string | undefined;
  /** Directory for the decrypted data. */
  readonly workDir: string | undefined;
  /** Restore a backup that was made before the last known quorum recovery or restore. */
  readonly acceptOlderEpoch: boolean;
}

/** A cluster that was restored. */
export interface RestoredCluster {
  readonly summary: InitSummary;
  readonly header: BackupHeader;
  readonly epoch: number;
}

/** `cluster restore`. */
export async function runRestore(
  context: CommandContext,
  file: string,
  options: RestoreOptions,
): Promise<void> {
  const { ownerKey, recoveryKey } = options;
  if (ownerKey !== undefined) await restoreWorkspace(context, file, { ownerKey, recoveryKey });
  const { summary, header, epoch } = await restoreCluster(context, file, {
    ...options,
    charts: { kind: 'all' },
  });
  const { controlPlanes } = options;
  if (controlPlanes.length > 0) {
    const { firstNode } = await readConfig(context.ports.files, layoutOf(context.paths.workspace));
    await admitControlPlanes(context, controlPlanes, {
      roles: firstNode.runsWorkloads ? ['control-plane', 'worker'] : ['control-plane'],
      timeoutMs: JOIN_MS,
    });
  }
  const joined = controlPlanes.map(({ name }) => name);
  context.host.result({ ...summary, epoch, takenMs: header.takenMs, joined }, () =>
    render(summary, { ...header, epoch, joined }),
  );
}

/**
 * Makes a fresh machine the first node of the cluster in a backup. The cluster keeps its ID, its keys and the
 * content of both databases, and gets a new epoch; all other machines of the old cluster are refused until an owner readmits
 * them. Everything is verified before the machine is touched. The steps after that are those of `cluster init`, which resumes.
 */
export async function restoreCluster(
  context: CommandContext,
  file: string,
  options: Omit<RestoreOptions, 'ownerKey' | 'controlPlanes'> & { readonly charts: InitOptions['charts'] },
): Promise<RestoredCluster> {
  const { host, signal } = context;
  const layout = layoutOf(context.paths.workspace);
  const ownerKey = await readOwnerKey(context, layout);
  const clusterId = clusterIdFrom(await readMasterSecret(context, layout));
  const key = await readRecoveryKey(context, ownerKey.keyPem, options.recoveryKey);
  const owners = [ed25519PubKeyFrom(ownerKey.keyPem) ?? new Uint8Array()];
  const trust = { owners, clusterId, epoch: 1 }; // the plan below refuses older epochs
  const { header, sha256 } = await host.step('restore-verify', `Verifying ${file}`, () =>
    verifyBackup(new DiskStreams().readChunks(file, { signal }), trust),
  );
  const { fingerprint, acceptOlderEpoch } = options;
  const state = await StateFile.read(context.ports.files, layout);
  const seenEpoch = await readSeenEpoch(context.ports.files, layout.curators);
  const asked = { header, sha256, fingerprint, acceptOlderEpoch };
  const { kind, epoch } = planRestore(state.value, seenEpoch, asked);
  if (kind === 'begin') await refuseLiveCluster(context, header);
  return withUnpackedBackup(context, { file, key, workDir: options.workDir }, async (unpacked) => {
    const config = await readConfig(context.ports.files, layoutOf(context.paths.workspace));
    refuseOtherConfiguration(unpacked.configuration, config);
    if (kind === 'begin') await beginRestore(context, { fileSha256: sha256, epoch });
    const summary = await runInit(context, {
      ...{ node: options.node, fingerprint, kubernetesVersion: header.versions.kubernetes },
      charts: options.charts,
      restore: sourceOf(unpacked, epoch),
    });
    return { summary, header, epoch };
  });
}

/**
 * From here on the workspace belongs to the restored cluster. The files about machines of the old cluster are deleted.
 */
export async function beginRestore(
  context: CommandContext,
  restore: { readonly fileSha256: string; readonly epoch: number },
): Promise<void> {
  await using workspace = await openWorkspace(context, 'cluster restore');
  const { layout, state } = workspace;
  const { files } = context.ports;
  // The restored cluster has the CA of the backup, even if a rotation has replaced this CA since.
  for (const path of [layout.curators, layout.ownerCert, layout.machines, layout.clusterCa])
    await files.remove(path);
  await state.update(({ init: _init, ...rest }) => ({ ...rest, charts: {}, restore }));
}

async function refuseLiveCluster(context: CommandContext, { clusterName }: BackupHeader): Promise<void> {
  const endpoints = await findLiveCluster(context);
  if (endpoints !== undefined)
    throw new BackupCommandError(
      'backup-cluster-alive',
      `restoring cluster ${clusterName}: one of its curators responds (${endpoints.join(', ')})`,
    );
}

function sourceOf({ state, kubernetes, sharedKeys }: UnpackedBackup, epoch: number): RestoreSource {
  const snapshot = ({ path, sha256, sizeBytes }: SnapshotFile): SnapshotSource => ({
    ...{ sha256, sizeBytes },
    read: (_, options) => new DiskStreams().readChunks(path, options),
  });
  const text = Buffer.from(sharedKeys.reveal()).toString('utf8');
  return {
    ...{ epoch, state: snapshot(state), kubernetes: snapshot(kubernetes) },
    sharedKeys: new Secret(keysShape.parse(parseJson(text)).files),
  };
}

function render(
  summary: Awaited<ReturnType<typeof runInit>>,
  {
    takenMs,
    epoch,
    joined,
  }: Pick<BackupHeader, 'takenMs' | 'epoch'> & { readonly joined: readonly string[] },
): string {
  const { clusterName, clusterId, nodeName, apiServer, kubeconfig } = summary;
  return [
    `Cluster ${clusterName} is restored to ${new Date(takenMs).toISOString()}.`,
    `  cluster ID  ${clusterId}`,
    `  epoch       ${epoch}`,
    `  first node  ${nodeName}`,
    ...joined.map((name) => `  joined      ${name}`),
    `  API server  ${apiServer}`,
    `  kubeconfig  ${kubeconfig}`,
    '',
    'All other machines of the old cluster are refused until you readmit them:',
    '  cluster node ls --removed',
    '  cluster node readmit IDENTITY',
    'Operators other than you are not restored: cluster operator add NAME. Volumes are not part of a backup.',
  ].join('\n');
}
