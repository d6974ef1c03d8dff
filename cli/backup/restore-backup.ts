import { z } from 'zod';
import type { BackupHeader } from '../../internal/backup/index.ts';
import { DiskStreams, parseJson } from '../../internal/file/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import type { CommandContext } from '../app/command.ts';
import {
  openWorkspace,
  runInit,
  type InitOptions,
  type InitSummary,
  type RestoreSource,
  type SnapshotSource,
} from '../cluster/index.ts';
import { admitControlPlanes, type ChosenMachine } from '../nodes/index.ts';
import { confirmLoss } from '../loss/index.ts';
import { layoutOf, readConfig } from '../workspace/index.ts';
import { addKnownMachines, addPinnedMachines, readKnownMachines } from '../sign/index.ts';
import {
  prepareRestore,
  showRestore,
  workspaceOf,
  type PreparedRestore,
  type RestoreSourceFlags,
} from './prepare-restore.ts';
import { withUnpackedBackup, type SnapshotFile, type UnpackedBackup } from './unpack-backup.ts';
import { restoreWorkspace } from './workspace-part.ts';

/** How long to wait for each machine of `controlPlanes`. */
const JOIN_MS = 10 * 60_000;
const keysShape = z.strictObject({ version: z.literal(1), files: z.record(z.string(), z.string()) });

/** Flags of `cluster restore`. */
export interface RestoreOptions extends RestoreSourceFlags {
  /** Address of the fresh machine; undefined: that of cluster.yaml. */
  readonly node: string | undefined;
  /** Machines that become control planes when the first one runs. They ask it to join. */
  readonly controlPlanes: readonly ChosenMachine[];
  /** Directory for the decrypted data. */
  readonly workDir: string | undefined;
  readonly dryRun: boolean;
  /** The operator confirmed the loss with `--yes`. */
  readonly yes: boolean;
}

/** A cluster that was restored. */
export interface RestoredCluster {
  readonly summary: InitSummary;
  readonly header: BackupHeader;
  readonly epoch: number;
  /** Names of the workers that stay members. */
  readonly keptWorkers: readonly string[];
  /** As in `PreparedRestore`. */
  readonly settings: readonly string[];
}

/** `cluster restore`. */
export async function runRestore(
  context: CommandContext,
  file: string,
  options: RestoreOptions,
): Promise<void> {
  const { ownerKey, recoveryKey } = options;
  if (options.dryRun) return showRestore(context, await prepareRestore(context, file, options));
  if (ownerKey !== undefined) {
    // Asked here, so that a refusal leaves no workspace behind.
    await confirmRestore(context, await prepareRestore(context, file, options), options);
    await restoreWorkspace(context, file, { ownerKey, recoveryKey });
  }
  const { summary, header, epoch, keptWorkers, settings } = await restoreCluster(context, file, {
    ...options,
    yes: options.yes || ownerKey !== undefined,
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
  const { savedConfig } = layoutOf(context.paths.workspace);
  context.host.result({ ...summary, epoch, takenMs: header.takenMs, joined, keptWorkers, settings }, () =>
    render(summary, { ...header, epoch, joined, keptWorkers, settings, savedConfig }),
  );
}

/**
 * Makes a fresh machine the first node of the cluster in a backup. The cluster keeps its ID, its keys and the
 * content of both databases, and gets a new epoch; the other machines of the old cluster are refused until an owner readmits
 * them, except workers that the owner has named. Everything is verified before the machine is touched. The steps after that are those of `cluster init`, which resumes.
 */
export async function restoreCluster(
  context: CommandContext,
  file: string,
  options: Omit<RestoreOptions, 'controlPlanes' | 'dryRun'> & { readonly charts: InitOptions['charts'] },
): Promise<RestoredCluster> {
  const prepared = await prepareRestore(context, file, options);
  const { header, sha256, kind, epoch, key, keptWorkers, otherMachines, settings } = prepared;
  const { savedConfig } = layoutOf(context.paths.workspace);
  await confirmRestore(context, prepared, options);
  return withUnpackedBackup(context, { file, key, workDir: options.workDir }, async (unpacked) => {
    if (kind === 'begin') {
      // The restored cluster gets those of cluster.yaml.
      if (settings.length > 0)
        await context.ports.files.writeAtomic(savedConfig, unpacked.configuration, { mode: 0o600 });
      await beginRestore(context, { fileSha256: sha256, epoch, keptWorkers, otherMachines });
    }
    const knownMachines = await readKnownMachines(context.ports.files, await workspaceOf(context));
    const summary = await runInit(context, {
      ...{
        node: options.node,
        fingerprint: options.fingerprint,
        kubernetesVersion: header.versions.kubernetes,
      },
      charts: options.charts,
      restore: { ...sourceOf(unpacked, epoch), knownMachines, keptWorkers },
    });
    return { summary, header, epoch, keptWorkers: keptWorkers.map(({ name }) => name), settings };
  });
}

function confirmRestore(
  context: CommandContext,
  { header, losses }: PreparedRestore,
  { yes }: Pick<RestoreOptions, 'yes'>,
): Promise<void> {
  return confirmLoss(context, { doing: `restoring cluster ${header.clusterName}`, losses, yes });
}

/**
 * From here on the workspace belongs to the restored cluster. The files about machines of the old cluster are deleted; the restored cluster
 * refuses these machines.
 */
export async function beginRestore(
  context: CommandContext,
  {
    keptWorkers,
    otherMachines,
    ...restore
  }: Pick<PreparedRestore, 'keptWorkers' | 'otherMachines'> & {
    readonly fileSha256: string;
    readonly epoch: number;
  },
): Promise<void> {
  await using workspace = await openWorkspace(context, 'cluster restore');
  const { layout, state } = workspace;
  const { files } = context.ports;
  const kept = keptWorkers.map(({ nodeId }) => nodeId);
  await addPinnedMachines(files, await workspaceOf(context), { machines: layout.machines, except: kept });
  await addKnownMachines(files, await workspaceOf(context), otherMachines);
  // The restored cluster has the CA of the backup, even if a rotation has replaced this CA since.
  for (const path of [layout.curators, layout.ownerCert, layout.machines, layout.clusterCa])
    await files.remove(path);
  await state.update(({ init: _init, ...rest }) => ({
    ...rest,
    charts: {},
    restore: { ...restore, ...(keptWorkers.length > 0 && { keptWorkers: [...keptWorkers] }) },
  }));
}

function sourceOf(
  { state, kubernetes, sharedKeys }: UnpackedBackup,
  epoch: number,
): Omit<RestoreSource, 'knownMachines' | 'keptWorkers'> {
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
    keptWorkers,
    settings,
    savedConfig,
  }: Pick<BackupHeader, 'takenMs' | 'epoch'> &
    Pick<RestoredCluster, 'keptWorkers' | 'settings'> & {
      readonly joined: readonly string[];
      readonly savedConfig: string;
    },
): string {
  const { clusterName, clusterId, nodeName, apiServer, kubeconfig } = summary;
  return [
    `Cluster ${clusterName} is restored to ${new Date(takenMs).toISOString()}.`,
    `  cluster ID  ${clusterId}`,
    `  epoch       ${epoch}`,
    `  first node  ${nodeName}`,
    ...joined.map((name) => `  joined      ${name}`),
    ...keptWorkers.map((name) => `  kept        ${name}`),
    `  API server  ${apiServer}`,
    `  kubeconfig  ${kubeconfig}`,
    '',
    'All other machines of the old cluster are refused until you readmit them:',
    '  cluster node ls --removed',
    '  cluster node readmit IDENTITY',
    `Machines that were removed after ${new Date(takenMs).toISOString()} are not among them if neither the backup nor this workspace knew them.`,
    'The shared keys are those of the backup, which the old control planes have too. When the machines that you keep are back:',
    '  cluster keys rotate   (if the keys were rotated before the backup, it names what to add)',
    ...(settings.length === 0
      ? []
      : [
          `cluster.yaml has other settings than the cluster had (${settings.join(', ')}): compare ${savedConfig}`,
        ]),
    'If backups were scheduled, sign the schedule again for the new control planes: run the command that cluster backup schedule show prints',
    'Operators other than you are not restored: cluster operator add NAME. Volumes are not part of a backup.',
  ].join('\n');
}
