import {
  readBackupHeader,
  verifyBackup,
  type BackupHeader,
  type RecoveryKey,
} from '../../internal/backup/index.ts';
import { formatDuration } from '../../internal/clock/index.ts';
import { parseWrittenConfig } from '../../internal/config/index.ts';
import { ed25519PubKeyFrom } from '../../internal/crypto/index.ts';
import { DiskStreams } from '../../internal/file/index.ts';
import type { CommandContext } from '../app/command.ts';
import { clusterIdFrom, findLiveCluster, readSeenEpoch } from '../cluster/index.ts';
import { printable } from '../../internal/printable/index.ts';
import type { KnownMachine } from '../../internal/records/index.ts';
import { renderLosses } from '../loss/index.ts';
import { joinKnown, readKnownMachines, readOtherKnownMachines } from '../sign/index.ts';
import {
  layoutOf,
  readConfig,
  readMasterSecret,
  readOwnerKey,
  readOwnerKeyFile,
  StateFile,
  type OwnerKey,
} from '../workspace/index.ts';
import { BackupCommandError } from './errors.ts';
import {
  compareConfiguration,
  findWorkers,
  keptWorkersOf,
  planRestore,
  workersLeftOut,
  type KeptWorker,
  type RestorePlan,
} from './plan-restore.ts';
import { readRecoveryKey } from './recovery-key.ts';
import { readConfiguration, readFacts } from './unpack-backup.ts';
import { openWorkspacePart } from './workspace-part.ts';

/** A verified backup file, and what its restore would do. */
export interface PreparedRestore extends RestorePlan {
  readonly header: BackupHeader;
  readonly sha256: string;
  readonly key: RecoveryKey;
  /** Workers that stay members, with their pods. */
  readonly keptWorkers: readonly KeptWorker[];
  /** Machines that other workspaces know: the restored cluster refuses them too. */
  readonly otherMachines: readonly KnownMachine[];
  /** The settings of the cluster for which cluster.yaml has others; the restored cluster gets those of cluster.yaml. */
  readonly settings: readonly string[];
  /** What the restore takes away; empty if it continues one that was begun. */
  readonly losses: readonly string[];
}

/** Flags of `cluster restore` that say which backup is restored, and with which keys. */
export interface RestoreSourceFlags {
  /** File with the owner key; undefined: that of the workspace. */
  readonly ownerKey: string | undefined;
  /** File with an age identity; undefined: the recovery key of the owner. */
  readonly recoveryKey: string | undefined;
  readonly fingerprint: string | undefined;
  /** Restore a backup that was made before the last known quorum recovery or restore. */
  readonly acceptOlderEpoch: boolean;
  /** Names of workers that still run and stay members. */
  readonly keepWorkers: readonly string[];
  /** Files `removed-machines.json` of other workspaces of the cluster. */
  readonly removedMachines: readonly string[];
}

/**
 * Verifies a backup and plans its restore. Changes nothing, and needs no workspace if the owner key is given.
 * @throws BackupError, BackupCommandError `backup-cluster-alive`
 */
export async function prepareRestore(
  context: CommandContext,
  file: string,
  flags: RestoreSourceFlags,
): Promise<PreparedRestore> {
  const { ownerKey: ownerKeyFile, recoveryKey, fingerprint, acceptOlderEpoch, keepWorkers } = flags;
  const { host, signal } = context;
  const { files, clock } = context.ports;
  const layout = layoutOf(context.paths.workspace);
  const { keyPem, clusterId, hasWorkspace } = await knownCluster(context, file, ownerKeyFile);
  const key = await readRecoveryKey(context, keyPem, recoveryKey);
  const owners = [ed25519PubKeyFrom(keyPem) ?? new Uint8Array()];
  const trust = { owners, clusterId, epoch: 1 }; // the plan below refuses older epochs
  const { header, sha256 } = await host.step('restore-verify', `Verifying ${file}`, () =>
    verifyBackup(new DiskStreams().readChunks(file, { signal }), trust),
  );
  const { value: state } = await StateFile.read(files, layout);
  const seenEpoch = await readSeenEpoch(files, layout.curators);
  const plan = planRestore(state, seenEpoch, { header, sha256, fingerprint, acceptOlderEpoch });
  // Only a workspace knows curators that could still respond.
  if (plan.kind === 'begin' && hasWorkspace) await refuseLiveCluster(context, header);
  const otherMachines = await readOtherMachines(context, flags.removedMachines, clusterId);
  const ownMachines = hasWorkspace ? await readKnownMachines(files, await workspaceOf(context)) : [];
  const known = joinKnown(ownMachines, otherMachines);
  // The whole file is decrypted to find its list of nodes.
  const facts =
    plan.kind === 'resume'
      ? undefined
      : await host.step('restore-nodes', `Reading the list of nodes in ${file}`, () =>
          readFacts(context, file, key),
        );
  const keptWorkers =
    facts === undefined ? keptWorkersOf(state, keepWorkers) : findWorkers(facts, keepWorkers, known);
  const settings = await readOtherSettings(context, file, { header, key, hasWorkspace });
  const losses =
    facts === undefined
      ? []
      : lossesOfRestore(header, {
          ...{ known, keptWorkers, settings, nowMs: clock.nowMs() },
          leftOut: workersLeftOut(facts, keptWorkers),
        });
  return { ...plan, header, sha256, key, keptWorkers, otherMachines, settings, losses };
}

/** @throws BackupCommandError `backup-removed-machines` */
async function readOtherMachines(
  { ports: { files } }: CommandContext,
  paths: readonly string[],
  clusterId: string,
): Promise<readonly KnownMachine[]> {
  let machines: readonly KnownMachine[] = [];
  for (const path of paths) {
    const found = await readOtherKnownMachines(files, path, clusterId);
    if (found === undefined)
      throw new BackupCommandError(
        'backup-removed-machines',
        `reading ${path}: no list of cluster ${clusterId}`,
      );
    machines = joinKnown(machines, found);
  }
  return machines;
}

/** Compares the configuration of the cluster with cluster.yaml, which without a workspace comes from the backup too. */
async function readOtherSettings(
  context: CommandContext,
  file: string,
  { header, key, hasWorkspace }: Pick<PreparedRestore, 'header' | 'key'> & { readonly hasWorkspace: boolean },
): Promise<readonly string[]> {
  const { files } = context.ports;
  const layout = layoutOf(context.paths.workspace);
  const config = hasWorkspace
    ? await readConfig(files, layout)
    : parseWrittenConfig((await openWorkspacePart(context, file, header, key)).configText, layout.config);
  return compareConfiguration(await readConfiguration(context, file, key), config);
}

/** Shows what the restore would do. */
export function showRestore(
  { host }: CommandContext,
  { header, kind, epoch, losses, keptWorkers }: PreparedRestore,
): void {
  const { clusterId, clusterName, takenMs } = header;
  const kept = keptWorkers.map(({ name }) => name);
  host.result({ clusterId, clusterName, takenMs, kind, epoch, keptWorkers: kept, losses, dryRun: true }, () =>
    [
      `Cluster ${clusterName} would be restored to ${new Date(takenMs).toISOString()}, in epoch ${epoch}. Nothing was changed.`,
      ...(kind === 'resume' ? ['A restore of this file was begun and would continue.'] : []),
      ...(kept.length === 0 ? [] : [`Workers that stay members and keep their pods: ${kept.join(', ')}.`]),
      ...(losses.length === 0 ? [] : ['Consequences:', renderLosses(losses)]),
    ].join('\n'),
  );
}

/** The owner key, and the cluster of the workspace; without a workspace, that of the file, which the owner key must verify. */
async function knownCluster(
  context: CommandContext,
  file: string,
  ownerKeyFile: string | undefined,
): Promise<Pick<OwnerKey, 'keyPem'> & { readonly clusterId: string; readonly hasWorkspace: boolean }> {
  const layout = layoutOf(context.paths.workspace);
  if (ownerKeyFile !== undefined && (await context.ports.files.stat(layout.masterSecret)) === undefined) {
    const { keyPem } = await readOwnerKeyFile(context, ownerKeyFile);
    const { clusterId } = await readBackupHeader(
      new DiskStreams().readChunks(file, { signal: context.signal }),
    );
    return { keyPem, clusterId, hasWorkspace: false };
  }
  const { keyPem } = await readOwnerKey(context, layout);
  return { keyPem, clusterId: clusterIdFrom(await readMasterSecret(context, layout)), hasWorkspace: true };
}

/** The workspace of the caller, and its cluster. */
export async function workspaceOf(
  context: CommandContext,
): Promise<{ readonly directory: string; readonly clusterId: string }> {
  const { workspace: directory } = context.paths;
  const clusterId = clusterIdFrom(await readMasterSecret(context, layoutOf(directory)));
  return { directory, clusterId };
}

function lossesOfRestore(
  { takenMs }: Pick<BackupHeader, 'takenMs'>,
  {
    known,
    keptWorkers,
    settings,
    nowMs,
    leftOut,
  }: Pick<PreparedRestore, 'keptWorkers' | 'settings'> & {
    readonly known: readonly KnownMachine[];
    readonly leftOut: ReturnType<typeof workersLeftOut>;
    readonly nowMs: number;
  },
): readonly string[] {
  const others = keptWorkers.length === 0 ? '' : ` except ${keptWorkers.map(({ name }) => name).join(', ')}`;
  const names = [...new Set(known.map(({ name }) => name))].join(', ');
  const reported = keptWorkers.length === 0 ? '' : '; kept workers report those that they know';
  const age = formatDuration(Math.max(0, nowMs - takenMs));
  return [
    `all changes since ${new Date(takenMs).toISOString()} (${age} ago)`,
    `the membership of all machines of the old cluster${others}: they are refused until an owner readmits them`,
    ...podsLeftOut(leftOut),
    `the removals of machines since then, except those that this workspace and --removed-machines know (${names === '' ? 'none' : names})${reported}`,
    ...(settings.length === 0
      ? []
      : [`the settings that the cluster had for ${settings.join(', ')}: cluster.yaml has others`]),
    'volumes, and the operators other than you: a backup has none of them',
    'scheduled backups, until an owner signs the schedule again for the new control planes',
    'the records of this workspace about the machines and certificates of the old cluster',
  ];
}

/** The pods of workers that the operator did not name, which may still run. */
function podsLeftOut(workers: ReturnType<typeof workersLeftOut>): readonly string[] {
  if (workers === undefined)
    return ['the pods that still run on workers: the backup does not list its workers, so none can be kept'];
  if (workers.length === 0) return [];
  const flags = workers.map((name) => `--keep-worker ${printable(name)}`).join(' ');
  return [
    `the pods that still run on ${workers.map((name) => printable(name)).join(', ')}: to keep them, name the workers that you trust (${flags})`,
  ];
}

async function refuseLiveCluster(context: CommandContext, { clusterName }: BackupHeader): Promise<void> {
  const endpoints = await findLiveCluster(context);
  if (endpoints !== undefined)
    throw new BackupCommandError(
      'backup-cluster-alive',
      `restoring cluster ${clusterName}: one of its curators responds (${endpoints.join(', ')})`,
    );
}
