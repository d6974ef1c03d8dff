import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { refuseOlderEpoch, type BackupFacts, type BackupHeader } from '../../internal/backup/index.ts';
import {
  clusterPartOf,
  otherSettings,
  parseClusterPart,
  type ClusterConfig,
} from '../../internal/config/index.ts';
import type { KnownMachine } from '../../internal/records/index.ts';
import { isOnlyWorker } from '../../internal/role/index.ts';
import type { WorkspaceState } from '../workspace/index.ts';
import { BackupCommandError } from './errors.ts';

/** A restore that the workspace has begun, or that begins now. */
export interface RestorePlan {
  readonly kind: 'begin' | 'resume';
  /** Epoch of the restored cluster: above that of the backup and of every cluster that the workspace knows. */
  readonly epoch: number;
}

/**
 * Decides whether the restore of this file continues, and in which epoch the restored cluster runs. Pure. With the same
 * file a restore resumes, unless the operator names another machine than the one with which the restore was begun.
 * @throws BackupError `backup-epoch-old`
 */
export function planRestore(
  { init, restore }: Pick<WorkspaceState, 'init' | 'restore'>,
  /** Highest epoch that a curator has reported to this workspace. */
  seenEpoch: number,
  backup: {
    readonly header: Pick<BackupHeader, 'epoch'>;
    readonly sha256: string;
    readonly fingerprint: string | undefined;
    readonly acceptOlderEpoch: boolean;
  },
): RestorePlan {
  const { header, sha256, fingerprint } = backup;
  const isOtherMachine = fingerprint !== undefined && ![undefined, fingerprint].includes(init?.fingerprint);
  if (restore?.fileSha256 === sha256 && !isOtherMachine) return { kind: 'resume', epoch: restore.epoch };
  // A restored cluster whose init never finished holds no data that this backup could lack, so its epoch does not
  // count.
  const own = init?.result?.epoch ?? (restore?.epoch ?? 1) - 1;
  const known = Math.max(Number(own), seenEpoch);
  if (!backup.acceptOlderEpoch) refuseOlderEpoch(header, known);
  return { kind: 'begin', epoch: Math.max(header.epoch, known, restore?.epoch ?? 0) + 1 };
}

/** A worker that stays a member of the restored cluster, with its pods. */
export interface KeptWorker {
  readonly nodeId: string;
  readonly name: string;
}

/**
 * The workers that a begun restore keeps. Without names it continues with the workers with which it was begun.
 * @throws BackupCommandError `backup-workers-differ`
 */
export function keptWorkersOf(
  { restore }: Pick<WorkspaceState, 'restore'>,
  names: readonly string[],
): readonly KeptWorker[] {
  const begun = restore?.keptWorkers ?? [];
  const wanted = new Set(names);
  const isSame = wanted.size === begun.length && begun.every(({ name }) => wanted.has(name));
  if (names.length === 0 || isSame) return begun;
  const before = begun.map(({ name }) => name).join(', ');
  throw new BackupCommandError(
    'backup-workers-differ',
    `restoring with --keep-worker ${names.join(', ')}: begun with ${before === '' ? 'none' : before}`,
  );
}

/**
 * The workers in the backup with these names.
 * @param known machines that were removed or admitted since the backup, as far as this workspace knows
 * @throws BackupCommandError `backup-nodes-unknown`, `backup-worker-unknown`, `backup-worker-removed`
 */
export function findWorkers(
  { nodes }: Pick<BackupFacts, 'nodes'>,
  names: readonly string[],
  known: readonly KnownMachine[],
): readonly KeptWorker[] {
  if (names.length === 0) return [];
  if (nodes === undefined)
    throw new BackupCommandError('backup-nodes-unknown', `keeping ${names.join(', ')}: no list of nodes`);
  const workers = nodes.filter(({ roles }) => isOnlyWorker(roles));
  const refused = new Set(known.flatMap(({ nodeId, identity }) => [nodeId, identity]));
  return [...new Set(names)].map((wanted) => {
    const worker = workers.find(({ name }) => name === wanted);
    if (worker === undefined) {
      const all = workers.map(({ name }) => name).join(', ');
      throw new BackupCommandError(
        'backup-worker-unknown',
        `keeping ${wanted}: the workers in the backup are ${all === '' ? 'none' : all}`,
      );
    }
    const { nodeId, name, identity = nodeId } = worker;
    if (refused.has(nodeId) || refused.has(identity))
      throw new BackupCommandError('backup-worker-removed', `keeping ${name}: it was removed`);
    return { nodeId, name };
  });
}

/** Names of the workers in the backup that the restored cluster refuses; undefined if the backup does not list its nodes. */
export function workersLeftOut(
  { nodes }: Pick<BackupFacts, 'nodes'>,
  kept: readonly KeptWorker[],
): readonly string[] | undefined {
  const keptIds = new Set(kept.map(({ nodeId }) => nodeId));
  return nodes
    ?.filter(({ nodeId, roles }) => isOnlyWorker(roles) && !keptIds.has(nodeId))
    .map(({ name }) => name);
}

const fixedPart = z.object({ name: z.string(), networking: z.json() });

/**
 * Requires that the cluster name and the networks are the same as in the backup, because every machine got them when it
 * joined. Join policy, attestation and other settings may differ: an owner may have changed them since. A scheduled backup has the
 * cluster.yaml of the day on which the schedule was signed, so that they may also be older than those of the cluster.
 * @param saved the configuration document of the backup
 * @returns the settings that differ
 * @throws BackupCommandError `backup-configuration-differs`
 */
export function compareConfiguration(saved: Uint8Array, config: ClusterConfig): readonly string[] {
  const text = Buffer.from(saved).toString('utf8');
  const document = parseClusterPart(text, 'the configuration in the backup');
  const before = fixedPart.parse(document);
  if (!isDeepStrictEqual(before, fixedPart.parse(clusterPartOf(config))))
    throw new BackupCommandError(
      'backup-configuration-differs',
      `restoring cluster ${before.name}: cluster.yaml has another name or other networks (backup: ${JSON.stringify(before.networking)})`,
    );
  return otherSettings(document, clusterPartOf(config));
}
