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
import { addPinnedMachines, readKnownMachines } from '../sign/index.ts';
import { compareConfiguration, type KeptWorker } from './plan-restore.ts';
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
  const { summary, header, epoch, keptWorkers } = await restoreCluster(context, file, {
    ...options,
    isConfirmed: ownerKey !== undefined,
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
  context.host.result({ ...summary, epoch, takenMs: header.takenMs, joined, keptWorkers }, () =>
    render(summary, { ...header, epoch, joined, keptWorkers }),
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
  options: Omit<RestoreOptions, 'controlPlanes' | 'dryRun'> & {
    readonly charts: InitOptions['charts'];
    /** The loss was confirmed before. */
    readonly isConfirmed?: boolean;
  },
): Promise<RestoredCluster> {
  const prepared = await prepareRestore(context, file, options);
  const { header, sha256, kind, epoch, key, keptWorkers } = prepared;
  if (options.isConfirmed !== true) await confirmRestore(context, prepared, options);
  return withUnpackedBackup(context, { file, key, workDir: options.workDir }, async (unpacked) => {
    const config = await readConfig(context.ports.files, layoutOf(context.paths.workspace));
    const settings = compareConfiguration(unpacked.configuration, config);
    if (kind === 'begin') {
      await confirmSettings(context, unpacked, { settings, yes: options.yes });
      await beginRestore(context, { fileSha256: sha256, epoch, keptWorkers });
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
    return { summary, header, epoch, keptWorkers: keptWorkers.map(({ name }) => name) };
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
 * The restored cluster gets the settings of cluster.yaml, which may be older than those of the backup. Keeps those of the backup beside it, so
 * that the operator can compare them.
 */
async function confirmSettings(
  context: CommandContext,
  { configuration }: Pick<UnpackedBackup, 'configuration'>,
  { settings, yes }: { readonly settings: readonly string[]; readonly yes: boolean },
): Promise<void> {
  const { savedConfig: path } = layoutOf(context.paths.workspace);
  if (settings.length === 0) return;
  const named = settings.join(', ');
  await context.ports.files.writeAtomic(path, configuration, { mode: 0o600 });
  const losses = [`the settings that the cluster had for ${named}: cluster.yaml has others (see ${path})`];
  await confirmLoss(context, { doing: 'restoring with this cluster.yaml', losses, yes });
  context.host.warn(
    'restore-other-settings',
    `cluster.yaml has other settings than the cluster had when the backup was taken: ${named}. Compare with ${path}`,
    { settings, file: path },
  );
}

/**
 * From here on the workspace belongs to the restored cluster. The files about machines of the old cluster are deleted; the restored cluster
 * refuses these machines.
 */
export async function beginRestore(
  context: CommandContext,
  {
    keptWorkers,
    ...restore
  }: { readonly fileSha256: string; readonly epoch: number; readonly keptWorkers: readonly KeptWorker[] },
): Promise<void> {
  await using workspace = await openWorkspace(context, 'cluster restore');
  const { layout, state } = workspace;
  const { files } = context.ports;
  const kept = keptWorkers.map(({ nodeId }) => nodeId);
  await addPinnedMachines(files, await workspaceOf(context), { machines: layout.machines, except: kept });
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
  }: Pick<BackupHeader, 'takenMs' | 'epoch'> & {
    readonly joined: readonly string[];
    readonly keptWorkers: readonly string[];
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
    'The shared keys are those of the backup, which the old control planes have too. When the machines that you keep are back:',
    '  cluster keys rotate   (if the keys were rotated before the backup, it names what to add)',
    'If backups were scheduled, sign the schedule again for the new control planes: cluster backup schedule set',
    'Operators other than you are not restored: cluster operator add NAME. Volumes are not part of a backup.',
  ].join('\n');
}
